package cluster

import (
	"time"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// A ProcessState says how a node's etcd process does.
type ProcessState string

// The process states.
const (
	ProcessStopped  ProcessState = "stopped"
	ProcessRunning  ProcessState = "running"
	ProcessCrashing ProcessState = "crashing"
)

// A Process is a node's etcd process.
type Process struct {
	State   ProcessState        `json:"state"`
	Version etcdversion.Version `json:"version,omitzero"`
	// Since is when the process entered the state.
	Since time.Time `json:"since,omitzero"`
	// LastExit is how the last run ended, empty if none did.
	LastExit string `json:"lastExit,omitempty"`
	// Problem is what is wrong beside the process: another etcd answers at its
	// URL, its pid file cannot be written.
	Problem string `json:"problem,omitempty"`
	// NoReport says why the process, which runs, gave no report; nil where it gave
	// one, or need not yet. It is set beside a report where etcd reports its status and
	// denies the daemon all else, as etcd 3.5 does.
	NoReport *NoReport `json:"noReport,omitempty"`
	// NoRoot is set where the daemon's user in etcd lacks the role root, and needs it, or
	// will need it.
	NoRoot *NoRoot `json:"noRoot,omitempty"`
	// LastLines are the last log lines of a run that failed.
	LastLines []string `json:"lastLines,omitempty"`
}

// NoRoot says that a daemon may not do everything in etcd that it has to.
type NoRoot struct {
	// User is as in [NoReport].
	User string `json:"user,omitempty"`
	// On says that authentication is on. Otherwise it can be turned on at any time.
	On bool `json:"on,omitempty"`
}

// A Cause is a kind of reason for which an etcd gave its daemon no report.
type Cause string

// The causes.
const (
	// CauseAuth: it denies: authentication is on, and the daemon's certificate is
	// of no user with the role root.
	CauseAuth Cause = "auth"
	// CauseTLS: one side does not accept the other's certificate, or does not speak
	// TLS.
	CauseTLS Cause = "tls"
	// CauseRefused: nothing listens.
	CauseRefused Cause = "refused"
	// CauseTimeout: no answer came in time.
	CauseTimeout Cause = "timeout"
	// CauseForeign: what answers is a member of another cluster, or another one.
	CauseForeign Cause = "foreign"
	// CauseOther: the text says what.
	CauseOther Cause = "other"
)

// NoReport says why a node's etcd, whose process runs, reported nothing.
type NoReport struct {
	Cause Cause  `json:"cause"`
	Text  string `json:"text"`
	// User is the common name of the daemon's client certificate, which etcd takes
	// for the name of a user. It is empty where etcd is called without TLS.
	User string `json:"user,omitempty"`
}
