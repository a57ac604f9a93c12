package handover

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/etcdadm/etcdadm/pkg/host/machine"
	"github.com/etcdadm/etcdadm/pkg/internal/hostfs"
)

// ReadJournal returns the machine's journal, nil if there is none.
func ReadJournal(cfg machine.Config) (*machine.Journal, error) {
	path := cfg.Paths.Journal()
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var j machine.Journal
	if err == nil {
		err = json.Unmarshal(b, &j)
	}
	if err == nil && j.Direction != machine.ToManager && j.Direction != machine.FromManager {
		err = fmt.Errorf("its direction is %q", j.Direction)
	}
	if err == nil {
		err = j.Token.Validate()
	}
	if err != nil {
		return nil, fmt.Errorf("read the journal of the handover in %s: %w", path, err)
	}
	return &j, nil
}

func writeJournal(path string, j machine.Journal) error {
	b, err := json.MarshalIndent(j, "", "  ")
	if err != nil {
		return err
	}
	if err := hostfs.MakeDir(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return hostfs.WriteFile(path, append(b, '\n'), 0o600)
}

func removeFile(path string) error {
	err := os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return hostfs.SyncDir(filepath.Dir(path))
}
