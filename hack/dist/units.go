package main

import (
	"embed"
	"slices"
	"strings"
	"time"

	"github.com/etcdadm/etcdadm/pkg/host/initfiles"
)

//go:embed files
var embedded embed.FS

func embeddedFile(name string) []byte {
	text, err := embedded.ReadFile("files/" + name)
	if err != nil {
		return nil
	}
	return text
}

// flagsFile returns the text of the file with what a unit gives to a program, nil for a
// program without one.
func flagsFile(program string) []byte { return embeddedFile(program + ".flags") }

// A unit of systemd.
type unit struct{ Name, Text string }

// flagsWord stands for the flags of a program that its unit reads from a file.
const flagsWord = "--flags-of-the-file"

// units returns the units of programs in a directory. Their flags are in files of the
// directory flags.
func units(names []string, dir, flags string) (list []unit, err error) {
	page := "https://github.com/etcdadm/etcdadm/blob/master/"
	if slices.Contains(names, "etcd-manager") {
		text, err := initfiles.ProgramUnit{
			Description: "etcd-manager, which runs a member of an etcd cluster", Page: page + "README.md",
			Program: dir + "/etcd-manager", Args: []string{flagsWord}, EnvFile: "/etc/etcd-manager/etcd-manager.env",
			StateDir:  "/var/lib/etcd-manager",
			WriteDirs: []string{"/etc/kubernetes/pki/etcd-manager", "/mnt/etcd-store"},
		}.Unit()
		if err != nil {
			return nil, err
		}
		list = append(list, unit{"etcd-manager.service", packaged(text, flags, "etcd-manager")})
	}
	if slices.Contains(names, "etcd-backup") {
		text, err := initfiles.ProgramUnit{
			Description: "backups of an etcd cluster", Page: page + "docs/etcd-backup.md",
			Program: dir + "/etcd-backup", Args: []string{flagsWord}, EnvFile: "/etc/etcd-backup/etcd-backup.env",
			StateDir: "/var/lib/etcd-backup", WriteDirs: []string{"/var/backups/etcd", "/mnt/etcd-store"}, Background: true,
		}.Unit()
		if err != nil {
			return nil, err
		}
		list = append(list, unit{"etcd-backup.service", packaged(text, flags, "etcd-backup")})
	}
	if slices.Contains(names, "etcdadm") {
		text, err := initfiles.RenewService(initfiles.RenewOptions{
			Program: dir + "/etcdadm", Flags: []string{flags + "/etcdadm"}, Args: []string{"--within=60d"},
		})
		if err != nil {
			return nil, err
		}
		timer := initfiles.RenewTimer(initfiles.RenewEach(60 * 24 * time.Hour))
		list = append(list, unit{initfiles.RenewServiceName, text}, unit{initfiles.RenewTimerName, timer})
	}
	return list, nil
}

// packaged makes of a unit for one machine one for all: its flags are in a file, and a
// directory that need not be there keeps nothing from starting.
func packaged(text, flags, program string) string {
	variable := strings.ToUpper(strings.ReplaceAll(program, "-", "_")) + "_FLAGS"
	text = strings.Replace(text, " \\\n  "+flagsWord, " $"+variable, 1)
	text = strings.Replace(text, "EnvironmentFile=-", "EnvironmentFile=-"+flags+"/"+program+"\nEnvironmentFile=-", 1)
	before, line, found := strings.Cut(text, "ReadWritePaths=")
	if !found {
		return text
	}
	line, after, _ := strings.Cut(line, "\n")
	return before + "# Another directory that is the store, or has the keys, is named in a drop-in:\n" +
		"# systemctl edit " + program + "\nReadWritePaths=-" + strings.ReplaceAll(line, " ", " -") + "\n" + after
}
