package main

import (
	"bytes"
	_ "embed"
	"strings"
	"text/template"

	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

//go:embed versions.md.tmpl
var versionsTemplate string

// versions renders docs/versions.md.
func versions() ([]byte, error) {
	t, err := template.New("versions").Parse(versionsTemplate)
	if err != nil {
		return nil, err
	}
	list, ways, floors := plan.Ways()
	var table strings.Builder
	table.WriteString("| from / to | " + strings.Join(list, " | ") + " |\n|" + strings.Repeat(" --- |",
		len(list)+1) + "\n")
	for i, w := range ways {
		if i%len(list) == 0 {
			table.WriteString("| **" + w.From + "** |")
		}
		table.WriteString(" " + w.How + " |")
		if i%len(list) == len(list)-1 {
			table.WriteString("\n")
		}
	}
	var out bytes.Buffer
	err = t.Execute(&out, map[string]any{"Table": table.String(), "Floor36": floors["3.6"], "Floor37": floors["3.7"],
		"Default": machine.DefaultVersion.String(), "Bench": "change of version of"})
	return out.Bytes(), err
}
