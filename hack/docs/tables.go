package main

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
)

// exitCodes renders the page of the exit codes from their table.
func exitCodes() ([]byte, error) { return renderExitCodes(cli.Codes()), nil }

func renderExitCodes(codes []cli.Code) []byte {
	var b bytes.Buffer
	fmt.Fprint(&b, `# Exit codes

All programs of this project end in one of these ways. Scripts may depend on the codes and the kinds,
but not on the texts of messages. An error is printed on standard error as `+"`error: ...`"+`, mostly with a
second line `+"`hint: ...`"+` that says what to do next. With `+"`-o json`"+` it is one JSON object with the fields
`+"`kind`, `message`, `hint` and `code`"+`.

| code | kind | means |
| --- | --- | --- |
`)
	for _, c := range codes {
		fmt.Fprintf(&b, "| %d | `%s` | %s |\n", c.Number, c.Kind, cell(c.Text))
	}
	return b.Bytes()
}

// holds renders the page of the holds.
func holds() ([]byte, error) { return renderHolds(plan.Reasons()), nil }

func renderHolds(reasons []plan.ReasonDoc) []byte {
	var b bytes.Buffer
	fmt.Fprint(&b, `# Holds

A hold is a reason for not acting. While a cluster is not what its spec says, there is always a next step
or at least one hold; "stuck without a reason" does not exist. Holds are shown by
`+"`etcd-manager-ctl status`, by `etcdadm status` and, as comments, by `etcdadm plan`"+`.
`+"`etcd-manager-ctl explain`"+` prints the text below for the present ones.

| reason | means |
| --- | --- |
`)
	for _, r := range reasons {
		first, _, _ := strings.Cut(r.Means, ". ")
		fmt.Fprintf(&b, "| [`%s`](#%s) | %s. |\n", r.Reason, r.Reason, cell(strings.TrimSuffix(first, ".")))
	}
	for _, r := range reasons {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n**What to do:** %s\n", r.Reason, r.Means, r.Do)
	}
	return b.Bytes()
}

// cell keeps a bar in a text from making a column.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
