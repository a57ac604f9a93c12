package initfiles

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/internal/shell"
)

// variable is the form of a variable's name that systemd, sh and etcd take.
var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// EnvFile returns an environment in the form KEY=VALUE as systemd's
// EnvironmentFile=, in the order of env. Values that need no quotes have none,
// so that the file can be read with grep and cut; the others are in double
// quotes, and are the same to sh.
//
// The error names what systemd would not hand on: names that are not
// variables, the same name twice, text that is not UTF-8, and control
// characters except tabs (env_value_is_valid in systemd drops a variable with
// such a value without failing).
func EnvFile(env []string) (string, error) {
	var b strings.Builder
	b.WriteString(header)
	seen := map[string]bool{}
	for _, line := range env {
		key, value, err := assignment(line)
		if err != nil {
			return "", fmt.Errorf("environment file: %w", err)
		}
		if seen[key] {
			return "", fmt.Errorf("environment file: %s is there twice", key)
		}
		seen[key] = true
		b.WriteString(key + "=" + quoteEnv(value) + "\n")
	}
	return b.String(), nil
}

// assignment splits and checks a line KEY=VALUE.
func assignment(line string) (key, value string, err error) {
	key, value, ok := strings.Cut(line, "=")
	if !ok || !variable.MatchString(key) {
		return "", "", fmt.Errorf("%q is not of the form KEY=VALUE", line)
	}
	return key, value, checkText("the value of "+key, value)
}

// quoteEnv quotes for systemd and sh. In double quotes both take a backslash
// before these four characters, and nothing else is special to either.
func quoteEnv(value string) string {
	if shell.PlainValue(value) {
		return value
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`").Replace(value) + `"`
}

// ParseEnvFile reads an environment file as systemd does (parse_env_file, from
// version 254 on): comments, continued lines, all quotes, the last of two
// assignments. It reads what EnvFile writes, and the files of the retired
// etcdadm.
//
// Lines that are not an assignment are left out, as by systemd. A quote that
// is not closed is an error.
func ParseEnvFile(text string) (map[string]string, error) {
	p := envParser{vars: map[string]string{}, line: 1}
	for _, r := range strings.TrimSuffix(text, "\n") + "\n" {
		p.step(r)
		if r == '\n' {
			p.line++
		}
	}
	if p.state == singleQuoted || p.state == doubleQuoted || p.state == doubleEscape {
		return nil, fmt.Errorf("environment file: the quote in line %d is not closed", p.opened)
	}
	if p.state != beforeKey {
		p.step('\r') // the file ended in the middle of a line
	}
	return p.vars, nil
}

type envState int

const (
	beforeKey envState = iota
	inKey
	comment
	commentEscape
	beforeValue
	inValue
	valueEscape
	singleQuoted
	doubleQuoted
	doubleEscape
)

// An envParser is systemd's state machine.
type envParser struct {
	vars       map[string]string
	state      envState
	key, value []rune
	// keep is the length of value without the blanks at its end that are not in
	// quotes.
	keep         int
	line, opened int
}

func (p *envParser) step(r rune) {
	switch p.state {
	case beforeKey, inKey, comment, commentEscape:
		p.stepKey(r)
	case beforeValue, inValue, valueEscape:
		p.stepValue(r)
	default:
		p.stepQuoted(r)
	}
}

func (p *envParser) stepKey(r rune) {
	switch {
	case p.state == comment && r == '\\':
		p.state = commentEscape
	case lineEnd(r):
		p.state, p.key = beforeKey, nil
	case p.state == comment || p.state == commentEscape:
		p.state = comment
	case p.state == beforeKey && (r == '#' || r == ';'):
		p.state = comment
	case p.state == beforeKey && blank(r):
	case p.state == inKey && r == '=':
		p.state, p.value, p.keep = beforeValue, nil, 0
	default:
		p.state = inKey
		p.key = append(p.key, r)
	}
}

func (p *envParser) stepValue(r rune) {
	switch {
	case p.state == valueEscape:
		p.state = inValue
		if !lineEnd(r) {
			p.add(r)
		}
	case lineEnd(r):
		p.assign()
	case r == '\\':
		p.state = valueEscape
	case p.state == beforeValue && r == '\'':
		p.state, p.opened = singleQuoted, p.line
	case p.state == beforeValue && r == '"':
		p.state, p.opened = doubleQuoted, p.line
	case p.state == beforeValue && blank(r):
	case blank(r):
		p.value = append(p.value, r)
	default:
		p.state = inValue
		p.add(r)
	}
}

func (p *envParser) stepQuoted(r rune) {
	switch {
	case p.state == singleQuoted && r == '\'', p.state == doubleQuoted && r == '"':
		p.state = beforeValue
	case p.state == doubleQuoted && r == '\\':
		p.state = doubleEscape
	case p.state == doubleEscape:
		p.state = doubleQuoted
		if r == '\n' {
			return
		}
		if !slices.Contains([]rune("\"\\`$"), r) {
			p.add('\\')
		}
		p.add(r)
	default:
		p.add(r)
	}
}

func (p *envParser) add(r rune) {
	p.value = append(p.value, r)
	p.keep = len(p.value)
}

// assign ends an assignment. systemd complains about names that are none, and
// goes on without them.
func (p *envParser) assign() {
	if key := strings.TrimRight(string(p.key), " \t"); variable.MatchString(key) {
		p.vars[key] = string(p.value[:p.keep])
	}
	p.state, p.key = beforeKey, nil
}

func lineEnd(r rune) bool { return r == '\n' || r == '\r' }
func blank(r rune) bool   { return r == ' ' || r == '\t' }
