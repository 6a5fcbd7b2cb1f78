// Holds a pod's namespaces until it is told to stop, and buries orphans meanwhile.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for received := range signals {
		if received != syscall.SIGCHLD {
			return
		}
		for {
			if buried, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); buried <= 0 || err != nil {
				break
			}
		}
	}
}
