// Command kubedata writes a snapshot file as of the etcd of a Kubernetes
// cluster, for benchmarks and trials. It prints what is in it.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/etcdadm/etcdadm/e2e/kubedata"
	"github.com/etcdadm/etcdadm/pkg/etcd/etcdversion"
)

func main() {
	var o kubedata.Options
	mib := flag.Int64("mib", 64, "about how large the file becomes, in MiB")
	flag.Uint64Var(&o.Seed, "seed", 1, "another seed makes another database of the same size")
	flag.TextVar(&o.StorageVersion, "storage-version", etcdversion.Version{Major: 3, Minor: 5},
		"form of the data: `version` 3.5, which all later ones read, 3.6 or 3.7")
	flag.BoolVar(&o.Raw, "raw", false, "leave out the digest: a database as in a data directory")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: kubedata [flags] FILE")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	o.Bytes = *mib << 20
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	s, err := kubedata.Write(ctx, flag.Arg(0), o)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(s)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "kubedata:", err)
		os.Exit(1)
	}
}
