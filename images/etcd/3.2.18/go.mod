module etcdbuild

go 1.26

godebug httpmuxgo121=1

require (
	github.com/bgentry/speakeasy v0.1.0
	github.com/cockroachdb/cmux v0.0.0-20160228191917-112f0506e774
	github.com/coreos/bbolt v1.3.3
	github.com/coreos/etcd v3.2.18+incompatible
	github.com/coreos/go-semver v0.3.0
	github.com/coreos/go-systemd v0.0.0-20191104093116-d3cd4ed1dbcf
	github.com/coreos/pkg v0.0.0-20180928190104-399ea9e2e55f
	github.com/dgrijalva/jwt-go v3.2.0+incompatible
	github.com/dustin/go-humanize v1.0.0
	github.com/ghodss/yaml v1.0.0
	github.com/gogo/protobuf v1.1.1
	github.com/golang/groupcache v0.0.0-20190129154638-5b532d6fd5ef
	github.com/golang/protobuf v1.3.5
	github.com/google/btree v1.0.0
	github.com/grpc-ecosystem/go-grpc-prometheus v1.2.0
	github.com/grpc-ecosystem/grpc-gateway v1.3.0
	github.com/jonboulle/clockwork v0.1.0
	github.com/mattn/go-runewidth v0.0.4
	github.com/olekukonko/tablewriter v0.0.1
	github.com/prometheus/client_golang v0.9.4
	github.com/spf13/cobra v0.0.3
	github.com/spf13/pflag v1.0.5
	github.com/ugorji/go v0.0.0-20170107133203-ded73eae5db7
	github.com/urfave/cli v1.20.0
	github.com/xiang90/probing v0.0.0-20190116061207-43a291ad63a2
	golang.org/x/crypto v0.21.0
	golang.org/x/net v0.23.0
	golang.org/x/sys v0.30.0
	golang.org/x/time v0.5.0
	google.golang.org/genproto v0.0.0-20180817151627-c66870c02cf8
	google.golang.org/grpc v1.7.5
	gopkg.in/cheggaaa/pb.v1 v1.0.28
)

require (
	github.com/beorn7/perks v1.0.0 // indirect
	github.com/matttproud/golang_protobuf_extensions v1.0.1 // indirect
	github.com/prometheus/client_model v0.0.0-20190129233127-fd36f4220a90 // indirect
	github.com/prometheus/common v0.4.1 // indirect
	github.com/prometheus/procfs v0.0.2 // indirect
	golang.org/x/text v0.14.0 // indirect
	gopkg.in/yaml.v2 v2.2.1 // indirect
)

replace github.com/coreos/bbolt => go.etcd.io/bbolt v1.3.10

replace github.com/ugorji/go => ../shim/ugorji

tool (
	github.com/coreos/etcd
	github.com/coreos/etcd/etcdctl
)
