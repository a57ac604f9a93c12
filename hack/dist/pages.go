package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/command/ctl"
	"github.com/etcdadm/etcdadm/pkg/command/docs"
	"github.com/etcdadm/etcdadm/pkg/command/etcdadm"
	"github.com/etcdadm/etcdadm/pkg/command/etcdbackup"
	"github.com/etcdadm/etcdadm/pkg/command/manager"
)

// programs are what is built, in the order of their names.
var programs = []string{"etcd-backup", "etcd-manager", "etcd-manager-ctl", "etcdadm"}

// A written page is of a program.
type written struct {
	Program string
	docs.Page
}

// pages writes the manual pages of all programs and what completes their command lines.
func pages(s source) (list []written, err error) {
	cli.Version = s.Version
	if err := os.Setenv("SOURCE_DATE_EPOCH", strconv.FormatInt(s.Time.Unix(), 10)); err != nil {
		return nil, err
	}
	own, err := os.Executable()
	if err != nil {
		return nil, err
	}
	for _, name := range programs {
		found, err := pagesOf(name)
		if err != nil {
			return nil, fmt.Errorf("pages of %s: %w", name, err)
		}
		for _, p := range found {
			// A default is the path of the program itself.
			p.Text = strings.ReplaceAll(p.Text, own, "/usr/bin/etcdadm")
			list = append(list, written{name, p})
		}
	}
	return list, nil
}

func pagesOf(name string) ([]docs.Page, error) {
	switch name {
	case "etcd-backup":
		return docs.Pages(etcdbackup.New())
	case "etcd-manager":
		return docs.Pages(manager.New(nil))
	case "etcd-manager-ctl":
		return docs.Pages(ctl.New())
	}
	return docs.Pages(etcdadm.New(nil, etcdadm.Parts()...))
}
