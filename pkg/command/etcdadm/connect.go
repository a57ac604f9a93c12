package etcdadm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/command/internal/contexts"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// ConnectOptions say how to reach a cluster.
type ConnectOptions struct {
	// BackupStore is the location of the control and backup store, empty for
	// none.
	BackupStore string
	ClusterName string
	// Nodes are daemons to ask, as HOST:PORT or NAME=HOST:PORT. Each is well
	// formed.
	Nodes []string
	// PKIDir holds the certificate authorities and keys of the daemons; from it
	// an identity is made where Cert and Key are empty.
	PKIDir string
	// Cert, Key and CACert are files of the identity to use.
	Cert, Key, CACert string
	// EtcdCert, EtcdKey and EtcdCACert are files of an identity for etcd, where
	// PKIDir is empty.
	EtcdCert, EtcdKey, EtcdCACert string
	// Insecure says that the daemons speak plain text, EtcdInsecure that etcd
	// does.
	Insecure, EtcdInsecure bool
	// Timeout is how long a command may take, more than zero.
	Timeout time.Duration
	// Progress is where the command prints what it waits for.
	Progress io.Writer `json:"-"`
	// Answered is to be called once the daemons have answered, if they do not only do so
	// by the end of the command.
	Answered func() `json:"-"`
}

// connectFlags are the names of the flags below, each of which has a variable
// in the environment. All but the last say where the cluster is.
var connectFlags = []string{
	"backup-store", "cluster-name", "nodes", "pki-dir", "cert", "key", "cacert",
	"etcd-cert", "etcd-key", "etcd-cacert", "insecure", "etcd-insecure", "timeout",
}

func (o *ConnectOptions) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.BackupStore, "backup-store", "", "`location` of the control and backup store")
	fs.StringVar(&o.ClusterName, "cluster-name", "", "`name` of the cluster")
	fs.Var((*contexts.Nodes)(&o.Nodes), "nodes", "daemons to ask, NAME=HOST:PORT or HOST:PORT (repeatable, or with commas)")
	fs.StringVar(&o.PKIDir, "pki-dir", "", "`directory` with the daemons' certificate authorities")
	fs.StringVar(&o.Cert, "cert", "", "`file` with the client certificate")
	fs.StringVar(&o.Key, "key", "", "`file` with the client key")
	fs.StringVar(&o.CACert, "cacert", "", "`file` with the certificate authority of the daemons")
	fs.StringVar(&o.EtcdCert, "etcd-cert", "", "`file` with the client certificate for etcd, for operations on members")
	fs.StringVar(&o.EtcdKey, "etcd-key", "", "`file` with the client key for etcd")
	fs.StringVar(&o.EtcdCACert, "etcd-cacert", "", "`file` with the certificate authority of etcd's servers")
	fs.BoolVar(&o.Insecure, "insecure", false, "connect to the daemons without TLS")
	fs.BoolVar(&o.EtcdInsecure, "etcd-insecure", false, "connect to etcd without TLS")
	fs.DurationVar(&o.Timeout, "timeout", time.Minute,
		"time limit of the command, waiting included; an operation that may take longer has more by default")
}

// variable returns the name of the variable that stands in for a flag.
func variable(flag string) string {
	return "ETCDADM_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// given says whether a flag or the environment says where daemons are.
func (o *ConnectOptions) given(fs *pflag.FlagSet) bool {
	for _, name := range connectFlags {
		if name != "timeout" && (fs.Changed(name) || os.Getenv(variable(name)) != "") {
			return true
		}
	}
	return false
}

// complete takes from the environment what no flag says, and checks the whole. Where
// something else has said which cluster it is, the environment does not change it.
func (o *ConnectOptions) complete(fs *pflag.FlagSet, known bool) error {
	for _, name := range connectFlags {
		value := os.Getenv(variable(name))
		if value == "" || fs.Changed(name) || known && name != "timeout" {
			continue
		}
		if err := cli.Fill(fs, name, value); err != nil {
			return cli.Usagef("%s: %v", variable(name), err)
		}
	}
	switch {
	case o.Timeout <= 0:
		return cli.Usagef("--timeout is %s, it must be positive", o.Timeout)
	case (o.Cert == "") != (o.Key == ""):
		return cli.Usagef("--cert and --key must be given together")
	case (o.EtcdCert == "") != (o.EtcdKey == "") || (o.EtcdCert == "") != (o.EtcdCACert == ""):
		return cli.Usagef("--etcd-cert, --etcd-key and --etcd-cacert must be given together")
	case o.BackupStore == "" && len(o.Nodes) == 0:
		return &cli.UsageError{
			Text: "the location of the cluster is missing: give --backup-store or --nodes",
			Next: "set the flag, or " + variable("backup-store") + " in the environment, or choose a context: " +
				"etcd-manager-ctl config use-context NAME",
		}
	}
	return nil
}

// waiting says for whom a command waits, and how long at most.
func (o *ConnectOptions) waiting() string {
	whom := "the daemons that " + store.Shown(o.BackupStore) + " names"
	if len(o.Nodes) > 0 {
		whom = "the daemons at " + strings.Join(o.Nodes, ", ")
	}
	return fmt.Sprintf("waiting for %s, for %s at most (--timeout)", whom, o.Timeout)
}

// inTime says of an error that comes from --timeout that it does.
func (t *tool) inTime(ctx context.Context, err error) error {
	if err == nil || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return err
	}
	return &timeoutError{error: fmt.Errorf("not done within %s: %w", t.connect.Timeout, err)}
}

// A timeoutError has a hint unless what it waited for has one.
type timeoutError struct{ error }

func (e *timeoutError) Unwrap() error { return e.error }

// Hint says how to wait longer.
func (e *timeoutError) Hint() string {
	var inner interface{ Hint() string }
	if errors.As(e.error, &inner) {
		return inner.Hint()
	}
	return "allow more time with --timeout; what the command began may still be under way"
}
