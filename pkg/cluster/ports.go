package cluster

// metricsOffset is how far behind the daemon's port that of its metrics is by default. None
// of the ports that kops gives to the daemons of a machine, to its etcds and to others is
// that far behind another one.
const metricsOffset = 81

// DefaultMetricsPort is the port of the metrics of a daemon with the port grpc, 0 for none.
func DefaultMetricsPort(grpc int) int {
	if port := grpc + metricsOffset; grpc > 0 && port <= 65535 {
		return port
	}
	return 0
}
