package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster/retention"
)

// A Finding is what a machine found wrong with a backup.
type Finding struct {
	Name string    `json:"name"`
	At   time.Time `json:"at"`
	// By is who found it: a node, or a person at a machine. Machine distinguishes machines,
	// see [Machine].
	By      string `json:"by,omitempty"`
	Machine string `json:"machine,omitempty"`
	Tool    string `json:"tool,omitempty"`
	Error   string `json:"error"`
}

// Machine returns what distinguishes this machine from others, empty if it has no machine id.
// Machines that were cloned with their id are one.
func Machine() string {
	for _, path := range []string{"/etc/machine-id", "/var/lib/dbus/machine-id"} {
		if b, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(b)) != "" {
			// The id itself is nobody else's business (machine-id(5)).
			sum := sha256.Sum256([]byte("etcdadm " + strings.TrimSpace(string(b))))
			return hex.EncodeToString(sum[:8])
		}
	}
	return ""
}

// otherMachine reports whether two findings are of two machines.
func (f Finding) otherMachine(g Finding) bool {
	if f.Machine != "" && g.Machine != "" {
		return f.Machine != g.Machine
	}
	return f.By != "" && g.By != "" && f.By != g.By
}

// A FindingStore is the part of a store that findings are in.
type FindingStore interface {
	Objects
	// Put stores a small object over any present one.
	Put(ctx context.Context, key string, b []byte) error
}

// ReportDamage records that a backup was found to be damaged. One machine is no witness, as its
// memory or its disk may be to blame: its finding makes the backup suspect. That of another
// one makes it count as damaged for all.
func ReportDamage(ctx context.Context, l FindingStore, f Finding) error {
	before, err := firstFinding(ctx, l, f.Name)
	if err != nil {
		return err
	}
	if before.Error != "" && before.otherMachine(f) {
		return MarkDamaged(ctx, l, f)
	}
	if before.Error != "" {
		return nil // it has said so
	}
	return write(ctx, l, f, retention.SuspectFile)
}

// MarkDamaged records that a backup is damaged, for all: two machines have found it, or an
// operator says so.
func MarkDamaged(ctx context.Context, l FindingStore, f Finding) error {
	return write(ctx, l, f, retention.DamagedFile)
}

// firstFinding returns the first finding, the zero one for none.
func firstFinding(ctx context.Context, l FindingStore, name string) (f Finding, err error) {
	b, there, err := optional(ctx, l, name+"/"+retention.SuspectFile)
	if err != nil {
		return f, fmt.Errorf("read what was found wrong with %s: %w", name, err)
	}
	if there && json.Unmarshal(b, &f) != nil {
		return Finding{}, nil // it is written again
	}
	return f, nil
}

func write(ctx context.Context, l FindingStore, f Finding, file string) error {
	b, err := json.MarshalIndent(f, "", "  ")
	if err == nil {
		err = l.Put(ctx, f.Name+"/"+file, append(b, '\n'))
	}
	if err != nil {
		return fmt.Errorf("record what was found wrong with %s: %w", f.Name, err)
	}
	return nil
}
