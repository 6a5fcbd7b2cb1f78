// A few things to apply, one for each way of asking for a slice.

const deployment = (name, extra, resources) => `apiVersion: apps/v1
kind: Deployment
metadata:
  name: ${name}
  namespace: default
spec:
  replicas: 2
  selector:
    matchLabels: {app: ${name}}
  template:
    metadata:
      labels: {app: ${name}}${extra}
    spec:
      containers:
        - name: main
          image: registry.k8s.io/pause:3.10
          resources:
            limits:
              ${resources}
`;

export const examples = [
  { name: 'Two MIG slices (1g.5gb)', text: deployment('small-mig', '', 'nvidia.com/mig-1g.5gb: 1') },
  { name: 'Two shared GPUs (time-slicing or MPS)', text: deployment('shared', '', 'nvidia.com/gpu.shared: 1') },
  { name: 'Two whole GPUs', text: deployment('whole', '', 'nvidia.com/gpu: 1') },
];
