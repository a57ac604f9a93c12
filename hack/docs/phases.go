package main

import (
	"bytes"
	_ "embed"
	"strings"
	"text/template"

	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

//go:embed phases.md.tmpl
var phasesPage string

// phases renders the page of what etcdadm does on one machine.
func phases() ([]byte, error) {
	type action struct {
		Name   machine.Action
		Phases []machine.Phase
	}
	var view struct {
		Actions []action
		Checks  []machine.Check
		Reasons []machine.ReasonDoc
	}
	actions := []machine.Action{
		machine.Init, machine.Join, machine.Reset, machine.Remove, machine.ToManager, machine.FromManager,
	}
	for _, a := range actions {
		view.Actions = append(view.Actions, action{a, machine.Phases(a)})
	}
	view.Checks, view.Reasons = machine.Checks(), machine.Reasons()
	page, err := template.New("phases").Funcs(template.FuncMap{
		"cell": func(text string) string { return strings.ReplaceAll(text, "|", `\|`) },
	}).Parse(phasesPage)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := page.Execute(&out, view); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
