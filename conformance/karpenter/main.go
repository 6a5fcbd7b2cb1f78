// Karpenter's controllers with its cloud of Node objects, made more like AWS' provider: machines have further labels, by which pools and
// overlays choose, what is launched is counted as overlays promise it, and nodes come without devices, as they do before an agent runs.
// CARVE_TYPE_LABELS names a file with an object of labels for each type.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kwok "sigs.k8s.io/karpenter/kwok/cloudprovider"
	karpenter "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/cloudprovider/overlay"
	"sigs.k8s.io/karpenter/pkg/controllers"
	"sigs.k8s.io/karpenter/pkg/controllers/nodeoverlay"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/operator"
	"sigs.k8s.io/karpenter/pkg/operator/options"
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
	bare := withoutDevices{op.GetClient()}
	cloud := &asPromised{kwok.NewCloudProvider(ctx, bare, types), op.InstanceTypeStore}
	overlaid := overlay.Decorate(cloud, op.GetClient(), op.InstanceTypeStore)
	cluster := state.NewCluster(op.Clock, op.GetClient(), overlaid)
	all := controllers.NewControllers(
		ctx, op.Manager, op.Clock, op.GetClient(), op.EventRecorder, overlaid, cloud, cluster, op.InstanceTypeStore)
	op.WithControllers(ctx, all...).Start(ctx)
}

// asPromised gives a launched NodeClaim the capacity that overlays promise. The cloud of Node objects gives it what its list of types
// says, so that Karpenter brings more machines for the same pods at its next look.
type asPromised struct {
	cloudprovider.CloudProvider
	store *nodeoverlay.InstanceTypeStore
}

func (cloud *asPromised) Create(ctx context.Context, claim *karpenter.NodeClaim) (*karpenter.NodeClaim, error) {
	pool, ofPool := claim.Labels[karpenter.NodePoolLabelKey]
	types, err := cloud.GetInstanceTypes(ctx, nil)
	if err == nil && ofPool && options.FromContext(ctx).FeatureGates.NodeOverlay {
		types, err = cloud.store.ApplyAll(pool, types)
	}
	if err != nil {
		return nil, fmt.Errorf("types of machines for %s: %w", claim.Name, err)
	}
	created, err := cloud.CloudProvider.Create(ctx, claim)
	if err != nil {
		return nil, err
	}
	for _, machine := range types {
		if machine.Name == created.Labels[corev1.LabelInstanceTypeStable] {
			created.Status.Capacity = only(machine.Capacity, isSome)
			created.Status.Allocatable = only(machine.Allocatable(), isSome)
		}
	}
	return created, nil
}

// withoutDevices makes nodes that advertise no devices yet.
type withoutDevices struct {
	client.Client
}

func (api withoutDevices) Create(ctx context.Context, object client.Object, how ...client.CreateOption) error {
	if node, isNode := object.(*corev1.Node); isNode {
		// The cloud goes on reading its own.
		node = node.DeepCopy()
		node.Status.Capacity = only(node.Status.Capacity, isOfHost)
		node.Status.Allocatable = only(node.Status.Allocatable, isOfHost)
		object = node
	}
	return api.Client.Create(ctx, object, how...)
}

func isSome(_ corev1.ResourceName, amount resource.Quantity) bool {
	return !amount.IsZero()
}

func isOfHost(name corev1.ResourceName, _ resource.Quantity) bool {
	return !strings.Contains(string(name), "/")
}

func only(all corev1.ResourceList, is func(corev1.ResourceName, resource.Quantity) bool) corev1.ResourceList {
	some := corev1.ResourceList{}
	for name, amount := range all {
		if is(name, amount) {
			some[name] = amount
		}
	}
	return some
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
