package initfiles

import (
	"errors"
	"fmt"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
	"github.com/etcdadm/etcdadm/pkg/internal/shell"
)

// ControlOptions say how etcdctl reaches the etcd of this machine.
type ControlOptions struct {
	// Version is that of etcdctl.
	Version etcdversion.Version
	// CA, Cert and Key are paths: the trust bundle, and the pair
	// etcdctl-etcd-client.
	CA, Cert, Key string
	// Endpoints are client URLs. They are left out of the file when they are
	// what etcdctl uses by itself, see [ControlEnv].
	Endpoints []string
}

// defaultEndpoint is what etcdctl uses when nothing else is said; with a
// certificate it speaks TLS.
const defaultEndpoint = "https://127.0.0.1:2379"

// ControlEnv returns etcdctl.env, which sh can source: export lines.
//
// etcdctl ends with an error when a flag and its variable are both given
// ("conflicting environment variable is shadowed by corresponding command-line
// flag"). So that people who have sourced the file can go on giving
// --endpoints, as with the retired etcdadm's file, ETCDCTL_ENDPOINTS is there
// only where etcdctl needs it. ETCDCTL_API is there before 3.6 only, which
// warns about it.
func ControlEnv(o ControlOptions) (string, error) {
	if o.Version.IsZero() {
		return "", errors.New("etcdctl.env: the version of etcd is missing")
	}
	type variable struct{ key, value string }
	var vars []variable
	if !o.Version.AtLeast(3, 6) {
		vars = append(vars, variable{"ETCDCTL_API", "3"})
	}
	for _, v := range []variable{{"ETCDCTL_CACERT", o.CA}, {"ETCDCTL_CERT", o.Cert}, {"ETCDCTL_KEY", o.Key}} {
		if err := checkPath(v.key, v.value); err != nil {
			return "", fmt.Errorf("etcdctl.env: %w", err)
		}
		vars = append(vars, v)
	}
	vars = append(vars, variable{"ETCDCTL_DIAL_TIMEOUT", "3s"})
	if endpoints := strings.Join(o.Endpoints, ","); endpoints != "" && endpoints != defaultEndpoint {
		if err := checkText("endpoints", endpoints); err != nil {
			return "", fmt.Errorf("etcdctl.env: %w", err)
		}
		vars = append(vars, variable{"ETCDCTL_ENDPOINTS", endpoints})
	}
	var b strings.Builder
	b.WriteString(header)
	for _, v := range vars {
		b.WriteString("export " + v.key + "=" + shell.Value(v.value) + "\n")
	}
	return b.String(), nil
}

// ControlScript returns etcdctl.sh: etcdctl with the variables of envFile and
// all arguments. Both are absolute paths. It ends with exit code 1 and a hint
// when it may not read envFile. A variable gives way to its flag, see
// [ControlEnv].
func ControlScript(envFile, etcdctl string) string {
	return strings.NewReplacer("@ENV@", shell.Quote(envFile), "@ETCDCTL@", shell.Quote(etcdctl)).Replace(controlScript)
}

const controlScript = `#!/bin/sh
` + header + `# etcdctl for the etcd of this machine.
env_file=@ENV@
if [ ! -r "$env_file" ]; then
	echo "error: cannot read $env_file" >&2
	echo "hint: run this as root; if the file is missing, 'etcdadm init' or 'etcdadm join' writes it" >&2
	exit 1
fi
. "$env_file"
# etcdctl takes either a flag or its variable.
for arg in "$@"; do
	case $arg in
	--) break ;;
	--endpoints | --endpoints=*) unset ETCDCTL_ENDPOINTS ;;
	--cacert | --cacert=*) unset ETCDCTL_CACERT ;;
	--cert | --cert=*) unset ETCDCTL_CERT ;;
	--key | --key=*) unset ETCDCTL_KEY ;;
	--dial-timeout | --dial-timeout=*) unset ETCDCTL_DIAL_TIMEOUT ;;
	esac
done
exec @ETCDCTL@ "$@"
`
