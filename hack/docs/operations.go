package main

import (
	"bytes"
	_ "embed"
	"strings"
	"text/template"

	"github.com/etcdadm/etcdadm/pkg/cluster/plan"
)

//go:embed operations.md.tmpl
var operationsPage string

// operations renders the page of the operations from their list.
func operations() ([]byte, error) { return renderOperations(plan.Kinds()) }

func renderOperations(kinds []plan.Kind) ([]byte, error) {
	page, err := template.New("operations").Funcs(template.FuncMap{
		"anchor": func(path string) string { return "etcdadm-" + strings.ReplaceAll(path, " ", "-") },
		"cell":   func(text string) string { return strings.ReplaceAll(text, "|", `\|`) },
	}).Parse(operationsPage)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := page.Execute(&out, kinds); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
