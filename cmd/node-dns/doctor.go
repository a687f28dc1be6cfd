package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/node-dns/node-dns/internal/admin/doctor"
)

func newDoctorCommand() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check this node's DNS and suggest fixes",
		Long: `Check this node's DNS and suggest fixes. It changes nothing, and also works
while node-dns is stopped.

It asks the daemon, systemd, NetworkManager, the kernel and the Kubernetes API,
and reads the files that matter. It looks up names through node-dns and directly
at the nameservers, and compares the answers; nameservers that do not answer
take some seconds. With SELinux it checks domains, labels and denials. Root sees
more than other users, and also queries from within pods.

Exit code 0: only [ok] and [warn]; 1: at least one [FAIL].`,
		Example: `  node-dns doctor
  node-dns doctor --name db.corp.example
  node-dns doctor -o json`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("name") {
				ascii, err := toASCII(name)
				if err != nil {
					return usageError{fmt.Errorf("doctor --name %w", err)}
				}
				name = ascii
			}
			root, err := rootOf(cmd)
			if err != nil {
				return err
			}
			report := doctor.Diagnose(doctor.Gather(cmd.Context(), root, version, name))
			return show(cmd, report, report.Failures > 0)
		},
	}
	addOutputFlag(cmd)
	cmd.Flags().StringVar(&name, "name", "", "also look up this `name` at node-dns and its nameservers")
	return cmd
}
