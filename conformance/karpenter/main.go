// Karpenter's controllers with its cloud of Node objects, whose machines have further labels: those of a real provider, by which pools and
// overlays choose. CARVE_TYPE_LABELS names a file with an object of labels for each type.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"

	kwok "sigs.k8s.io/karpenter/kwok/cloudprovider"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/cloudprovider/overlay"
	"sigs.k8s.io/karpenter/pkg/controllers"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/operator"
	"sigs.k8s.io/karpenter/pkg/scheduling"
)

func main() {
	ctx, op := operator.NewOperator()
	types, err := kwok.ConstructInstanceTypes(ctx)
	if err == nil {
		err = label(types, os.Getenv("CARVE_TYPE_LABELS"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "no types of machines:", err)
		os.Exit(1)
	}
	plain := kwok.NewCloudProvider(ctx, op.GetClient(), types)
	overlaid := overlay.Decorate(plain, op.GetClient(), op.InstanceTypeStore)
	cluster := state.NewCluster(op.Clock, op.GetClient(), overlaid)
	all := controllers.NewControllers(
		ctx, op.Manager, op.Clock, op.GetClient(), op.EventRecorder, overlaid, plain, cluster, op.InstanceTypeStore)
	op.WithControllers(ctx, all...).Start(ctx)
}

// label gives types of machines their labels, and makes these known, as a provider does for its own.
func label(types []*cloudprovider.InstanceType, path string) error {
	if path == "" {
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var labels map[string]map[string]string
	if err := json.Unmarshal(text, &labels); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, machine := range types {
		for key, value := range labels[machine.Name] {
			karpenter.WellKnownLabels = karpenter.WellKnownLabels.Insert(key)
			machine.Requirements.Add(scheduling.NewRequirement(key, corev1.NodeSelectorOpIn, value))
		}
	}
	return nil
}
