package kubedata

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// An object is one thing in the cluster: the index-th of its kind.
type object struct {
	kind            *kind
	index           int
	key             string
	name, namespace string
	app             string
	// generation counts its writes.
	generation int64
}

// A kind is a resource of Kubernetes.
type kind struct {
	name string
	// share says how many of a thousand objects are of it, churn how many of a
	// thousand later changes.
	share, churn int
	// prefix is the key's beginning; cluster-wide kinds have no namespace.
	prefix      string
	clusterWide bool
	// ttl is that of the lease which its keys hang on, zero for none.
	ttl   int64
	value func(m *message, o object)
}

var kinds = []*kind{
	{name: "pods", share: 230, churn: 250, prefix: "/registry/pods/", value: pod},
	{name: "events", share: 360, churn: 330, prefix: "/registry/events/", ttl: 3660, value: event},
	{name: "secrets", share: 80, churn: 30, prefix: "/registry/secrets/", value: secret},
	{name: "configmaps", share: 70, churn: 30, prefix: "/registry/configmaps/", value: configMap},
	{name: "leases", share: 40, churn: 220, prefix: "/registry/leases/", value: lease},
	{name: "replicasets", share: 90, churn: 40, prefix: "/registry/replicasets/",
		value: workload("apps/v1", "ReplicaSet")},
	{name: "deployments", share: 40, churn: 30, prefix: "/registry/deployments/",
		value: workload("apps/v1", "Deployment")},
	{name: "endpointslices", share: 40, churn: 50, prefix: "/registry/endpointslices/", value: endpointSlice},
	{name: "minions", share: 10, churn: 30, prefix: "/registry/minions/", clusterWide: true, value: node},
	{name: "masterleases", share: 1, churn: 2, prefix: "/registry/masterleases/", clusterWide: true, ttl: 15,
		value: endpointSlice},
	{name: "certificates", share: 39, churn: 8, prefix: "/registry/cert-manager.io/certificates/", value: certificate},
}

var words = strings.Fields("billing catalog checkout frontend gateway identity inventory ledger mailer metrics " +
	"orders payments " +
	"profile queue recommend reports search session shipping storage tracking warehouse webhooks worker")

// source is what the random parts of one object come from.
func source(seed uint64, k *kind, index int) *rand.Rand {
	h := seed
	for _, c := range []byte(k.name) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return rand.New(rand.NewPCG(h, uint64(index)))
}

// object returns the index-th object of a kind, as it is at its n-th write.
func (k *kind) object(seed uint64, index int, generation int64) (object, *rand.Rand) {
	rng := source(seed, k, index)
	app := words[rng.IntN(len(words))]
	o := object{kind: k, index: index, app: app, generation: generation}
	o.name = fmt.Sprintf("%s-%s-%s-%d", app, random(rng, nameDigits, 9), random(rng, nameDigits, 5), index)
	if k.name == "events" {
		o.name += "." + random(rng, hexDigits, 16)
	}
	o.key = k.prefix + o.name
	if !k.clusterWide {
		o.namespace = fmt.Sprintf("team-%02d", rng.IntN(40))
		o.key = k.prefix + o.namespace + "/" + o.name
	}
	return o, rng
}

// fieldsOf is what server-side apply notes of the fields that somebody owns.
func fieldsOf(parts ...string) string {
	var b strings.Builder
	b.WriteString(`{"f:metadata":{"f:annotations":{".":{},"f:checksum/config":{}},"f:labels":{".":{},"f:app.kubernetes.io/name":{}}}`)
	for _, p := range parts {
		fmt.Fprintf(&b, `,"f:%s":{".":{},"f:conditions":{".":{},"k:{\"type\":\"Ready\"}":{".":{},"f:lastProbeTime":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}}}}`, p)
	}
	return b.String() + "}"
}

var (
	podFields   = fieldsOf("spec", "containers", "volumes", "status", "containerStatuses", "hostIPs")
	smallFields = fieldsOf("spec")
)

func ip(rng *rand.Rand) string {
	return fmt.Sprintf("10.%d.%d.%d", 64+rng.IntN(8), rng.IntN(256), 1+rng.IntN(254))
}

func nodeName(rng *rand.Rand) string {
	return fmt.Sprintf("ip-10-0-%d-%d.eu-central-1.compute.internal", rng.IntN(16), rng.IntN(256))
}

// container appends a Container.
func (m *message) container(field int, name, app string) {
	m.nest(2, func() {
		m.text(1, name)
		m.text(2, fmt.Sprintf("registry.example.com/platform/%s/%s:v1.%d.%d", app, name, m.rng.IntN(40), field))
		for _, env := range []string{
			"POD_NAME", "POD_NAMESPACE", "DATABASE_HOST", "DATABASE_PORT", "LOG_LEVEL", "OTEL_EXPORTER_OTLP_ENDPOINT",
		} {
			m.nest(7, func() {
				m.text(1, env)
				m.text(2, strings.ToLower(env)+"."+app+".svc.cluster.local")
			})
		}
		for _, r := range []string{"cpu", "memory"} {
			m.nest(8, func() { m.pair(1, r, fmt.Sprint(100*(1+m.rng.IntN(9)))) })
		}
		for _, v := range []string{"/var/run/secrets/kubernetes.io/serviceaccount", "/etc/config", "/tmp"} {
			m.nest(9, func() {
				m.text(1, "kube-api-access-"+random(m.rng, nameDigits, 5))
				m.text(3, v)
			})
		}
		m.text(13, "/dev/termination-log")
		m.text(14, "IfNotPresent")
		m.text(20, "File")
	})
}

func pod(m *message, o object) {
	m.envelope("v1", "Pod", func() {
		m.meta(o, podFields)
		m.nest(2, func() {
			m.container(0, "app", o.app)
			m.container(1, "istio-proxy", o.app)
			m.text(3, "Always")
			m.number(4, 30)
			m.text(6, "ClusterFirst")
			m.text(8, "default")
			m.text(10, nodeName(m.rng))
			for _, t := range []string{"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"} {
				m.nest(22, func() {
					m.text(1, t)
					m.text(2, "Exists")
					m.text(4, "NoExecute")
				})
			}
		})
		m.nest(3, func() {
			m.text(1, "Running")
			m.conditions("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
			m.text(5, ip(m.rng))
			m.text(6, ip(m.rng))
			for _, c := range []string{"app", "istio-proxy"} {
				m.nest(8, func() {
					m.text(1, c)
					m.number(5, o.generation)
					m.text(6, "registry.example.com/platform/"+o.app+"/"+c)
					m.text(7, "sha256:"+random(m.rng, hexDigits, 64))
					m.text(8, "containerd://"+random(m.rng, hexDigits, 64))
				})
			}
		})
	})
}

func (m *message) conditions(types ...string) {
	for _, t := range types {
		m.nest(2, func() {
			m.text(1, t)
			m.text(2, "True")
			m.time(3)
			m.time(4)
		})
	}
}

func event(m *message, o object) {
	m.envelope("v1", "Event", func() {
		m.meta(o, smallFields)
		m.nest(2, func() {
			m.text(1, "Pod")
			m.text(2, o.namespace)
			m.text(3, o.name)
			m.text(4, uid(m.rng))
			m.text(5, "v1")
		})
		m.text(3, "Unhealthy")
		m.text(4, fmt.Sprintf("Readiness probe failed: Get \"http://%s:8080/healthz\": context deadline exceeded "+
			"(Client.Timeout exceeded while awaiting headers)", ip(m.rng)))
		m.nest(5, func() {
			m.text(1, "kubelet")
			m.text(2, nodeName(m.rng))
		})
		m.time(6)
		m.time(7)
		m.number(8, o.generation)
		m.text(9, "Warning")
	})
}

func secret(m *message, o object) {
	m.envelope("v1", "Secret", func() {
		m.meta(o, smallFields)
		m.pair(2, "token", "eyJhbGciOiJSUzI1NiIsImtpZCI6"+random(m.rng, base64Digits, 900+m.rng.IntN(1500)))
		m.pair(2, "tls.key", random(m.rng, base64Digits, 1700))
		m.pair(2, "ca.crt", "-----BEGIN CERTIFICATE-----\n"+random(source(7, o.kind, 0), base64Digits, 1400)+
			"\n-----END CERTIFICATE-----\n")
		m.text(3, "kubernetes.io/service-account-token")
	})
}

func configMap(m *message, o object) {
	m.envelope("v1", "ConfigMap", func() {
		m.meta(o, smallFields)
		var b strings.Builder
		for i := range 20 + m.rng.IntN(80) {
			fmt.Fprintf(&b, "  - name: %s-%d\n    endpoint: https://%s.svc.cluster.local:8443/api/v1\n    timeout: %ds\n    "+
				"retries: %d\n",
				words[m.rng.IntN(len(words))], i, o.app, m.rng.IntN(60), m.rng.IntN(5))
		}
		m.pair(2, "config.yaml", "upstreams:\n"+b.String())
	})
}

func lease(m *message, o object) {
	m.envelope("coordination.k8s.io/v1", "Lease", func() {
		m.meta(o, "")
		m.nest(2, func() {
			m.text(1, nodeName(m.rng))
			m.number(2, 40)
			m.number(4, 1780000000+o.generation*10)
		})
	})
}

func workload(apiVersion, name string) func(*message, object) {
	return func(m *message, o object) {
		m.envelope(apiVersion, name, func() {
			m.meta(o, podFields)
			m.nest(2, func() {
				m.number(1, int64(1+m.rng.IntN(9)))
				m.nest(3, func() {
					m.meta(o, "")
					m.nest(2, func() { m.container(0, "app", o.app) })
				})
			})
			m.nest(3, func() {
				m.number(1, o.generation)
				m.conditions("Available", "Progressing")
			})
		})
	}
}

func endpointSlice(m *message, o object) {
	m.envelope("discovery.k8s.io/v1", "EndpointSlice", func() {
		m.meta(o, smallFields)
		for range 1 + m.rng.IntN(8) {
			m.nest(2, func() {
				m.text(1, ip(m.rng))
				m.text(6, nodeName(m.rng))
				m.text(7, "eu-central-1a")
				m.nest(4, func() { m.text(5, uid(m.rng)) })
			})
		}
	})
}

func node(m *message, o object) {
	m.envelope("v1", "Node", func() {
		m.meta(o, podFields)
		m.nest(3, func() {
			m.conditions("MemoryPressure", "DiskPressure", "PIDPressure", "Ready", "NetworkUnavailable")
			for i := range 40 {
				m.nest(8, func() {
					m.text(1, fmt.Sprintf("registry.example.com/platform/%s@sha256:%s", words[i%len(words)],
						random(m.rng, hexDigits, 64)))
					m.number(2, int64(m.rng.IntN(1<<30)))
				})
			}
		})
	})
}

// certificate is a custom resource, which is stored as JSON.
func certificate(m *message, o object) {
	fields := strings.Replace(podFields, `{"f:metadata"`, `{"f:apiVersion":{},"f:metadata"`, 1)
	m.b = fmt.Appendf(m.b, `{"apiVersion":"cert-manager.io/v1","kind":"Certificate","metadata":{"name":%q,"namespace":%q,"uid":%q,"generation":%d,`+
		`"labels":{"app.kubernetes.io/name":%q},"managedFields":[{"manager":"cert-manager","fieldsV1":%s}]},`+
		`"spec":{"dnsNames":["%s.example.com","www.%s.example.com"],"issuerRef":{"name":"letsencrypt","kind":"ClusterIssuer"},"secretName":"%s-tls"},`+
		`"status":{"conditions":[{"type":"Ready","status":"True","reason":"Ready","message":"Certificate is up to date and has not expired"}],"notAfter":"2026-12-%02dT10:39:37Z"}}`+"\n",
		o.name, o.namespace, uid(m.rng), o.generation, o.app, fields, o.app, o.app, o.name, 1+m.rng.IntN(28))
}
