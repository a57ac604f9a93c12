package cli

import "github.com/spf13/pflag"

// AddKlogFlags adds the logging flags that the existing tools have, all
// hidden, so that command lines written for those go on working (kops passes
// --v=6). They have no effect, except that the value of -v is returned.
func AddKlogFlags(fs *pflag.FlagSet) (verbosity *int) {
	verbosity = fs.IntP("v", "v", 0, "log verbosity")
	for _, name := range []string{
		"logtostderr", "alsologtostderr", "add_dir_header", "skip_headers", "skip_log_headers", "one_output",
		"legacy_stderr_threshold_behavior",
	} {
		fs.Bool(name, false, "has no effect")
	}
	for _, name := range []string{
		"vmodule", "alsologtostderrthreshold", "stderrthreshold", "log_dir", "log_file", "log_file_max_size",
		"log_backtrace_at",
	} {
		fs.String(name, "", "has no effect")
	}
	for _, name := range klogFlags {
		// The flag is there: it has just been added.
		_ = fs.MarkHidden(name)
	}
	return verbosity
}

// klogFlags are the names that AddKlogFlags adds.
var klogFlags = []string{
	"v", "vmodule", "logtostderr", "alsologtostderr", "alsologtostderrthreshold", "stderrthreshold",
	"log_dir", "log_file", "log_file_max_size", "add_dir_header", "skip_headers", "skip_log_headers",
	"one_output", "log_backtrace_at", "legacy_stderr_threshold_behavior",
}
