package main

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/node-dns/node-dns/internal/daemon"
	"github.com/node-dns/node-dns/internal/sys/journal"
	"github.com/node-dns/node-dns/internal/sys/supervise"
)

func newServeCommand() *cobra.Command {
	var configFile string
	var listen, upstreams []string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the daemon",
		Long: `Run the daemon: answer cluster names and forward the rest.

Without flags it listens where node-config.yaml and node-dns.yaml say (the node
IP, port 53) and queries the upstream nameservers that origin-dns-dispatcher
captured. SIGHUP reloads the configuration. SIGTERM ends it after the pending
queries.

Exit code 0: stopped by a signal; 1: it cannot run, and the reason is shown; 4:
permission denied.`,
		Example: `  node-dns serve
  node-dns --root /tmp/tree serve --listen 127.0.0.1:10053 --upstream 10.0.0.2`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			signals := supervise.CatchSignals()
			root, err := rootOf(cmd)
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("config") && configFile == "" {
				return usageError{errors.New(`--config "": expected a file`)}
			}
			config := daemon.Config{
				Root: root, ConfigFile: configFile, Version: version, Revision: ownVersion().Revision(), Level: new(slog.LevelVar), Signals: signals, Inherited: supervise.Inherit(),
				Receivers: makeRoom(), SetMemoryLimit: debug.SetMemoryLimit, SetGCPercent: ownGCPercent(), Invocation: os.Getenv("INVOCATION_ID"),
			}
			config.APIServer, config.NodeName = apiOfPod(os.Getenv), os.Getenv("NODE_NAME")
			config.Log, config.Stacks = journal.NewLogger(cmd.ErrOrStderr(), "node-dns", config.Level), cmd.ErrOrStderr()
			if config.Listen, err = parseListen(listen); err != nil {
				return usageError{err}
			}
			if config.Upstreams, err = parseUpstreams(upstreams); err != nil {
				return usageError{err}
			}
			return daemon.Run(cmd.Context(), config)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&configFile, "config", "", "read this `file` instead of /etc/node-dns/node-dns.yaml")
	flags.StringArrayVar(&listen, "listen", nil, "listen on `ADDR:PORT` instead of the configured addresses (repeatable)")
	flags.StringArrayVar(&upstreams, "upstream", nil, "query this `server` instead of the captured upstreams: IP, IP:PORT or dns+tls://IP#NAME (repeatable)")
	return cmd
}

// apiOfPod returns the address of the Kubernetes API for a pod, or "" outside of one. The kubelet
// sets these variables in every container.
func apiOfPod(getenv func(string) string) string {
	host, port := getenv("KUBERNETES_SERVICE_HOST"), getenv("KUBERNETES_SERVICE_PORT_HTTPS")
	if host == "" || port == "" {
		return ""
	}
	return net.JoinHostPort(host, port)
}

// ownGCPercent returns the function that the daemon uses to tune Go's garbage collector, or nil if
// GOGC is set, which takes precedence (go doc runtime).
func ownGCPercent() func(int) int {
	if os.Getenv("GOGC") != "" {
		return nil
	}
	return debug.SetGCPercent
}

// maxReceivers is the maximum number of receiving threads. One thread handles 250,000 queries per
// second from a socket.
const maxReceivers = 4

// makeRoom raises GOMAXPROCS by one for each thread that receives queries or responses. It returns
// the number of such threads of each kind.
func makeRoom() (receivers int) {
	processors := runtime.GOMAXPROCS(0)
	receivers = min(processors, maxReceivers)
	runtime.GOMAXPROCS(processors + 2*receivers)
	return receivers
}
