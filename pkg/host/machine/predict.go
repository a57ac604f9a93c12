package machine

import (
	"slices"

	"github.com/etcdadm/etcdadm/pkg/cluster"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/host/initfiles"
)

// learnerID stands for the id that a new member will get.
const learnerID cluster.MemberID = 1

// Predict returns how the next observation will be when op has been done and all goes
// well.
func Predict(cfg Config, obs Observation, op Operation) Observation {
	if obs.Handover != nil {
		return predictHandover(cfg, obs, op)
	}
	switch op := op.(type) {
	case *Remember:
		obs.Record = op.Record
	case *InstallBinaries:
		v := op.Version.Release()
		obs.Binaries = Binary{Etcd: v, Etcdctl: v, Paths: obs.Binaries.Paths}
		if v.AtLeast(3, 5) {
			obs.Binaries.Etcdutl = v
		}
		obs.Service.Outdated = obs.Service.Active()
	case *CreateCA:
		obs.PKI.CA = CAReady
	case *IssueCertificates:
		obs.PKI.Wrong, obs.PKI.Expiring = nil, nil
	case *RestoreSnapshot:
		obs.Data.State, obs.Data.Ready = cluster.DiskData, true
	case *MakeDataDir:
		obs.Data.Ready, obs.Data.Foreign = true, false
	case *SetDataAside, *DiscardData:
		obs.Data = Data{State: cluster.DiskEmpty}
	case *WriteFiles:
		obs.Files = with(obs.Files, op)
		obs = predictRenewal(cfg, obs, op.Files, nil)
		return predictWritten(cfg, obs, op.Files)
	case *RemoveFiles:
		obs = predictRenewal(cfg, without(obs, op.Paths), nil, op.Paths)
		if slices.Contains(op.Paths, cfg.Paths.EnvFile()) || slices.Contains(op.Paths, cfg.Paths.Manifest()) {
			obs.Written = nil
		}
	case *StartService:
		return predictStart(cfg, obs, op)
	case *StopService:
		obs.Service = ServiceStatus{State: ServiceStopped}
		obs.Local = nil
	case *AwaitHealth:
		return predictHealth(cfg, obs)
	case *ForceSnapshot:
		obs.Data.Hazards = slices.Clone(obs.Data.Hazards)
		for i := range obs.Data.Hazards {
			if h := &obs.Data.Hazards[i]; h.BySnapshot() {
				*h = cluster.Hazard{Kind: h.Kind, State: cluster.HazardAbsent}
			}
		}
	case *Membership:
		obs.Remote.Members = slices.Clone(obs.Remote.Members)
		return predictMembership(obs, op.Operation)
	}
	return obs
}

// predictHealth has the member publish itself, as etcd does when it has started.
func predictHealth(cfg Config, obs Observation) Observation {
	obs.Local = &cluster.Report{Leader: 1}
	self, ok := (&planner{cfg: cfg, obs: obs}).self()
	if !ok {
		return obs
	}
	obs.Local.Learner = self.Learner
	if self.Learner {
		obs.Data.Hazards = cluster.NoHazards()
	}
	obs.Remote.Members = slices.Clone(obs.Remote.Members)
	for i, m := range obs.Remote.Members {
		if m.ID == self.ID {
			m.Name, m.ClientURLs, m.Healthy, m.Condition = cfg.Name, URLs(cfg).Client, true, cluster.Serving
			obs.Remote.Members[i] = m
		}
	}
	return obs
}

// predictWritten has the process be older than what it was started from.
func predictWritten(cfg Config, obs Observation, files []initfiles.File) Observation {
	for _, f := range files {
		switch f.Path {
		case cfg.Paths.EnvFile():
			// What was just rendered can be read.
			obs.Written, _ = initfiles.ParseEnvFile(f.Content)
			obs.Service.Outdated = obs.Service.Active()
		case cfg.Paths.Unit():
			obs.Service.Outdated = obs.Service.Active()
		}
	}
	return obs
}

func with(files map[string]string, op *WriteFiles) map[string]string {
	all := map[string]string{}
	for path, content := range files {
		all[path] = content
	}
	for _, f := range op.Files {
		all[f.Path] = f.Content
	}
	return all
}

func without(obs Observation, paths []string) Observation {
	gone := func(path string) bool { return slices.Contains(paths, path) }
	files := map[string]string{}
	for path, content := range obs.Files {
		if !gone(path) {
			files[path] = content
		}
	}
	obs.Files = files
	obs.PKI.Paths = slices.DeleteFunc(slices.Clone(obs.PKI.Paths), gone)
	obs.PKI.CAPaths = slices.DeleteFunc(slices.Clone(obs.PKI.CAPaths), gone)
	obs.Binaries.Paths = slices.DeleteFunc(slices.Clone(obs.Binaries.Paths), gone)
	return obs
}

func predictStart(cfg Config, obs Observation, op *StartService) Observation {
	obs.Service = ServiceStatus{State: ServiceRunning, Enabled: true}
	obs.Data.State, obs.Data.Ready = cluster.DiskData, true
	obs.Local = nil // it has to become healthy first
	if op.Manifest != "" {
		obs.Files = map[string]string{cfg.Paths.Manifest(): op.Manifest}
	}
	p := &planner{cfg: cfg, obs: obs}
	if m, ok := p.addressed(); ok {
		obs.Data.MemberID, obs.Data.ClusterID = m.ID, obs.Remote.ClusterID
	}
	return obs
}

func predictMembership(obs Observation, op plan.Operation) Observation {
	members := obs.Remote.Members
	switch op := op.(type) {
	case *plan.AddLearner:
		obs.Remote.Members = append(members, cluster.Member{ID: learnerID, PeerURLs: op.PeerURLs, Learner: true})
	case *plan.Promote:
		for i := range members {
			if members[i].Name == op.Name {
				members[i].Learner = false
			}
		}
		if obs.Local != nil {
			local := *obs.Local
			local.Learner = false
			obs.Local = &local
		}
	case *plan.Remove:
		obs.Remote.Members = slices.DeleteFunc(members, func(m cluster.Member) bool { return m.ID == op.ID })
	case *plan.MoveLeader:
		for _, m := range members {
			if m.Name == op.To {
				obs.Remote.Leader = m.ID
			}
		}
	}
	return obs
}
