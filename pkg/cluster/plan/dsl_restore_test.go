package plan_test

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/retention"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

// backupOf returns the name of the backup of an age.
func backupOf(at time.Time, age string) string {
	d, err := time.ParseDuration(age)
	if err != nil {
		return age
	}
	return retention.Name(at.Add(-d), 1)
}

func (s *stage) restoreFact(kind string, args []string) error {
	switch kind {
	case "request":
		return s.request(args)
	case "source":
		return s.source(args)
	case "revision-problem": // of the mark
		s.obs.Store.RevisionProblem = strings.Join(args, " ")
		return nil
	case "mark":
		n, err := strconv.ParseInt(args[0], 10, 64)
		s.obs.Store.Revision = cluster.Revision(n)
		return err
	}
	return fmt.Errorf("there is no %q", kind)
}

func (s *stage) request(args []string) error {
	r := cluster.Request{Name: args[0], At: s.obs.At.Add(-time.Minute)}
	err := each(args[1:], func(k, v string) (err error) {
		switch k {
		case "kind":
			r.Kind = cluster.RequestKind(v)
		case "by":
			r.By = v
		case "reason":
			r.Reason = v
		case "backup":
			r.Backup = backupOf(s.obs.At, v)
		case "members":
			r.MemberCount, err = strconv.Atoi(v)
		case "version":
			r.EtcdVersion, err = etcdversion.Parse(v)
		case "sealed":
			r.Sealed = true
		case "age":
			var age time.Duration
			age, err = time.ParseDuration(v)
			r.At = s.obs.At.Add(-age)
		case "skip-backup":
			r.SkipBackup = true
		case "lost":
			for _, name := range strings.Split(v, ",") {
				r.Lost = append(r.Lost, cluster.NodeName(name))
			}
		default:
			err = fmt.Errorf("a request has no %q", k)
		}
		return err
	})
	s.obs.Store.Requests = append(s.obs.Store.Requests, r)
	if r.Kind == cluster.RequestRestore && s.obs.Store.Source == nil {
		s.obs.Store.Source = &cluster.Source{
			Request: r.Name, Backup: r.Backup, Version: standard, Revision: 900, Size: 2 << 30,
		}
	}
	if r.Sealed { // nothing is taken yet, and the newest backup is the one of any cluster
		s.obs.Store.Source = &cluster.Source{Request: r.Name, Newest: backupOf(s.obs.At, "5m"), Size: 2 << 30}
	}
	return err
}

func (s *stage) source(args []string) error {
	if args[0] == "none" {
		s.obs.Store.Source = nil
		return nil
	}
	src := s.obs.Store.Source
	src.Request = args[0]
	return each(args[1:], func(k, v string) (err error) {
		var n int64
		switch k {
		case "version":
			src.Version, err = etcdversion.Parse(v)
		case "storage":
			src.Storage, err = etcdversion.Parse(v)
		case "revision":
			n, err = strconv.ParseInt(v, 10, 64)
			src.Revision = cluster.Revision(n)
		case "backup":
			src.Backup = backupOf(s.obs.At, v)
		case "newest":
			src.Newest = backupOf(s.obs.At, v)
		case "problem":
			src.Problem = v
		default:
			err = fmt.Errorf("a source has no %q", k)
		}
		return err
	})
}

// staged gives a node what it has staged, as TOKEN/REQUEST:a,b,c, or amends it.
func (s *stage) staged(n *cluster.Node, key, value string) (err error) {
	switch key {
	case "staged":
		head, voters, _ := strings.Cut(value, ":")
		token, request, _ := strings.Cut(head, "/")
		n.Staged = &cluster.Staged{
			Request: request, Backup: backupOf(s.obs.At, "1h"), Token: cluster.Token(token), Version: standard,
			Voters: s.initialMembers(voters), Revision: 1_000_000_900,
		}
	case "begins":
		var r int64
		r, err = strconv.ParseInt(value, 10, 64)
		n.Staged.Revision = cluster.Revision(r)
	case "ready":
		n.Staged.Ready = true
	case "staging":
		n.Staged.Problem = value
	case "refused":
		n.Staged.Problem, n.Staged.Refused = value, true
	case "fetched":
		n.Staged.Total = 2 << 30
		n.Staged.Done, err = strconv.ParseInt(value, 10, 64)
		n.Staged.Done <<= 20
	case "restored": // it has changed over and has not started
		s.staged(n, "staged", value) //nolint:errcheck // it has none
		n.Prepared = &cluster.Prepared{
			Token: n.Staged.Token, Version: standard, Voters: n.Staged.Voters, Backup: n.Staged.Backup,
		}
		n.Staged, n.Assigned, n.Disk = nil, nil, cluster.Disk{State: cluster.DiskEmpty}
		n.LeaseVoters = cluster.LeaseVoters{Token: n.Prepared.Token, Names: cluster.InitialMemberNames(n.Prepared.Voters)}
		n.Process = cluster.Process{State: cluster.ProcessStopped}
	case "free":
		n.FreeBytes, err = strconv.ParseInt(value, 10, 64)
		n.FreeBytes <<= 20
	case "mark":
		var r int64
		r, err = strconv.ParseInt(value, 10, 64)
		n.Revision = cluster.Revision(r)
	default:
		return fmt.Errorf("a node has no attribute %q", key)
	}
	return err
}
