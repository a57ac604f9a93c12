package certificates

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/etcdadm/etcdadm/pkg/certs"
	"github.com/etcdadm/etcdadm/pkg/cli"
	"github.com/etcdadm/etcdadm/pkg/command/internal/machineflags"
	"github.com/etcdadm/etcdadm/pkg/host/machine"
)

func rotateCommand(out *cli.Output) *cobra.Command {
	cmd := cli.Group("rotate-ca", "replace the certificate authority in steps, while everything keeps working")
	cmd.Long = `A rotation has three steps. Finish each step on all machines before you begin the next one:

  prepare  Makes the next authority on the first machine. Copy ca-next.crt and ca-next.key to the others.
           Both authorities are trusted then. Restart etcd: it reads ca.crt only when it starts.
  issue    Issues the machine's certificates from the next authority, which becomes the authority. No restart.
  finish   Drops the old authority. Restart etcd, so that it stops trusting it.

Each step can be repeated, and is refused out of order. Before issue and finish the members are asked whether
they are ready. Clients elsewhere (the API servers) need the new ca.crt after prepare, and a new key pair after
issue.`
	cmd.AddCommand(
		stepCommand(out, certs.StepPrepare, "make or adopt the next authority, and trust both"),
		stepCommand(out, certs.StepIssue, "issue the certificates of this machine from the next authority"),
		stepCommand(out, certs.StepFinish, "drop the old authority"),
		rotationStatus(out),
	)
	return cmd
}

// A rotated is what a step prints for programs.
type rotated struct {
	certs.Rotated
	// Next says what is to be done now.
	Next []string `json:"next"`
}

func stepCommand(out *cli.Output, step certs.RotationStep, short string) *cobra.Command {
	cmd := &cobra.Command{Use: string(step), Short: short, Args: cobra.NoArgs}
	flags := machineflags.Add(cmd, machineflags.Certificates, machineflags.Paths)
	expect := ""
	cmd.Flags().StringVar(&expect, "expect-ca", "",
		"`fingerprint` of the new authority: refuse any other, and never make one")
	check := trustCheck{step: step}
	if step != certs.StepPrepare {
		check.addFlags(cmd.Flags())
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := flags.Config()
		if err != nil {
			return err
		}
		expect, err := fingerprint(expect)
		if err != nil {
			return err
		}
		if step != certs.StepPrepare {
			if err := check.run(cmd.Context(), cfg, cmd.ErrOrStderr()); err != nil {
				return err
			}
		}
		r, err := certs.RotateCA(spec(cfg), step, expect, time.Now())
		if err != nil {
			return hinted(err)
		}
		result := rotated{r, next(r, cfg)}
		return out.Print(cmd.OutOrStdout(), cli.Versioned("AuthorityRotation", result), func(w io.Writer) error {
			return printRotated(w, result)
		})
	}
	return cmd
}

// fingerprint reads what --expect-ca was given: as it is printed here, or as
// openssl prints it.
func fingerprint(text string) (string, error) {
	f := strings.ToLower(strings.ReplaceAll(text, ":", ""))
	if f != "" && (len(f) != 64 || strings.Trim(f, "0123456789abcdef") != "") {
		return "", &cli.UsageError{
			Text: fmt.Sprintf("--expect-ca %q is not the SHA-256 of a certificate", text),
			Next: "see it: etcdadm certs rotate-ca status",
		}
	}
	return f, nil
}

func printRotated(w io.Writer, r rotated) error {
	changed := strings.Join(r.Changed, ", ")
	if changed == "" {
		changed = "nothing, it is done already"
	}
	rows := [][]string{{"rotation:", string(r.State)}, {"authority:", r.Fingerprint}, {"changed:", changed}}
	if err := cli.Rows(w, rows...); err != nil || len(r.Next) == 0 {
		return err
	}
	fmt.Fprintf(w, "\nnext:\n")
	for i, text := range r.Next {
		fmt.Fprintf(w, "  %d. %s\n", i+1, cli.Plain(text))
	}
	return nil
}

// next says what has to follow a step.
func next(r certs.Rotated, cfg machine.Config) []string {
	dir := cfg.Paths.Certificates
	again := func(step certs.RotationStep) string {
		return fmt.Sprintf("etcdadm certs rotate-ca %s%s --expect-ca=%s", step, dirFlag(dir), r.Fingerprint)
	}
	bundle := "etcdadm kubeadm bundle" + dirFlag(dir)
	restart := "restart etcd on this machine, unless it was restarted after ca.crt changed: " + restartLine(cfg)
	switch {
	case r.Step == certs.StepPrepare && r.State == certs.RotationPrepared:
		return []string{
			restart,
			fmt.Sprintf("on each other machine: copy ca-next.crt and ca-next.key from %s of this one; then %s, and restart "+
				"etcd, one machine at a time", dir, again(certs.StepPrepare)),
			"give the new ca.crt to the clients, and restart them: for API servers " + bundle,
			"then on each machine: " + again(certs.StepIssue),
		}
	case r.Step == certs.StepIssue && r.State == certs.RotationIssued:
		return []string{
			"on each other machine: " + again(certs.StepIssue) + "; etcd is not restarted",
			"give the new " + certs.APIServerPair + " to the API servers: " + bundle,
			"then on each machine: " + again(certs.StepFinish),
		}
	case r.Step == certs.StepFinish && r.Restart:
		return []string{
			restart + "; until then it trusts the old authority",
			"on each other machine: " + again(certs.StepFinish) + ", and restart etcd, one machine at a time",
			"give the new ca.crt to the clients: for API servers " + bundle,
		}
	}
	return nil
}

func restartLine(cfg machine.Config) string {
	switch cfg.Service.InitSystem {
	case machine.Kubelet:
		return "move etcd.manifest out of " + cfg.Paths.Manifests + " and back"
	case machine.Systemd:
		return "systemctl restart etcd"
	}
	return "stop the process and start it again"
}

func rotationStatus(out *cli.Output) *cobra.Command {
	cmd := &cobra.Command{Use: "status", Short: "print the progress of a rotation on this machine", Args: cobra.NoArgs}
	flags := machineflags.Add(cmd, machineflags.Certificates, machineflags.Paths)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := flags.Config()
		if err != nil {
			return err
		}
		r, err := certs.CheckRotation(cfg.Paths.Certificates, time.Now())
		if err != nil {
			return err
		}
		return out.Print(cmd.OutOrStdout(), cli.Versioned("AuthorityRotationStatus", r), func(w io.Writer) error {
			return cli.Rows(w,
				[]string{"rotation:", string(r.State)}, []string{"issuing:", r.Issuing}, []string{"next:", orDash(r.Next)},
				[]string{"to be dropped:", orDash(strings.Join(r.Old, ", "))}, []string{
					"not issued by the newest:", orDash(strings.Join(r.OldLeaves, ", ")),
				},
				[]string{"step that is due:", orDash(due(r.State))})
		})
	}
	return cmd
}

// due is the step that follows from a state.
func due(s certs.RotationState) string {
	switch s {
	case certs.RotationPreparing:
		return string(certs.StepPrepare)
	case certs.RotationPrepared, certs.RotationIssuing:
		return string(certs.StepIssue)
	case certs.RotationIssued:
		return string(certs.StepFinish)
	}
	return ""
}
