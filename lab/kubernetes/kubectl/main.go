// kubectl by itself: tests call it some thousand times, and in one program with the other components it would start all of them each time.
package main

import (
	"os"
	"runtime/debug"

	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
)

func main() {
	// It ends before collecting garbage is worth it.
	debug.SetGCPercent(400)
	os.Exit(cli.Run(cmd.NewDefaultKubectlCommand()))
}
