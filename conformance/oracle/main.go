// The oracle answers, with the programs' own packages, how Kubernetes and NVIDIA read a document.
//
// It reads one JSON object per line on stdin, {"kind": ..., "text": ...}, and answers one per line on stdout,
// {"ok": ..., "error": ..., "json": ...}. Kinds: yaml (sigs.k8s.io/yaml), mig-parted, mig-hooks, device-plugin.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	deviceplugin "github.com/NVIDIA/k8s-device-plugin/api/config/v1"
	hooks "github.com/NVIDIA/mig-parted/api/hooks/v1"
	migparted "github.com/NVIDIA/mig-parted/api/spec/v1"
	"sigs.k8s.io/yaml"
)

type question struct {
	Kind string `json:"kind"`
	Text string `json:"text"`
}

type answer struct {
	OK    bool            `json:"ok"`
	Error string          `json:"error"`
	JSON  json.RawMessage `json:"json,omitempty"`
}

func main() {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriter(os.Stdout)
	decoder := json.NewDecoder(in)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for {
		var q question
		if err := decoder.Decode(&q); err != nil {
			break
		}
		if err := encoder.Encode(ask(q)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		// One answer per question: the other side may wait for it before it asks again.
		if err := out.Flush(); err != nil {
			os.Exit(1)
		}
	}
}

func ask(q question) (a answer) {
	// A panic inside the libraries is an answer too.
	defer func() {
		if r := recover(); r != nil {
			a = answer{Error: fmt.Sprintf("panic: %v", r)}
		}
	}()
	switch q.Kind {
	case "yaml":
		value, err := yaml.YAMLToJSON([]byte(q.Text))
		if err != nil {
			return answer{Error: err.Error()}
		}
		return answer{OK: true, JSON: value}
	case "mig-parted":
		return decode(q.Text, &migparted.Spec{})
	case "mig-hooks":
		return decode(q.Text, &hooks.Spec{})
	case "device-plugin":
		config := &deviceplugin.Config{}
		if a := decode(q.Text, config); !a.OK {
			return a
		}
		// The package does not export this step of reading a file.
		if config.Version == "" {
			config.Version = deviceplugin.Version
		}
		if config.Version != deviceplugin.Version {
			return answer{Error: fmt.Sprintf("unknown version: %v", config.Version)}
		}
		return encode(config)
	}
	return answer{Error: "no such kind: " + q.Kind}
}

func decode(text string, into any) answer {
	if err := yaml.Unmarshal([]byte(text), into); err != nil {
		return answer{Error: err.Error()}
	}
	return encode(into)
}

func encode(value any) answer {
	text, err := json.Marshal(value)
	if err != nil {
		// A value that was accepted but can not be written back, such as a list of no devices.
		return answer{OK: true, Error: err.Error()}
	}
	return answer{OK: true, JSON: text}
}
