package main

import (
	"github.com/spf13/cobra"

	"github.com/node-dns/node-dns/internal/admin/doctor"
)

func newDoctorCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look this node's DNS over, and say what mends what is wrong",
		Long: `Look this node's DNS over, and say what mends what is wrong. Nothing is changed, whether node-dns runs or not.

It asks the daemon, systemd, NetworkManager, the kernel and the Kubernetes API, reads the files that have a say, and asks
each upstream nameserver directly; what does not answer is waited for some seconds. With SELinux it checks domains, labels
and denials. Root sees more than others do.

Exit code 0: nothing but [ok] and [warn]; 1: at least one [FAIL].`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			root, err := rootToShow(cmd, output)
			if err != nil {
				return err
			}
			report := doctor.Diagnose(doctor.Gather(cmd.Context(), root, version))
			if err := show(cmd, report, output, nil); err != nil {
				return err
			}
			if report.Failures > 0 {
				return errShown
			}
			return nil
		},
	}
	addOutputFlag(cmd, &output)
	return cmd
}
