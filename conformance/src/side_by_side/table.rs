//! What carve does otherwise than NVIDIA's programs, with the reason for each.

use super::Intended;

/// Towards kubelet and the container runtime.
pub const PLUGIN: &[Intended] = &[
    Intended {
        scenario: "no flags",
        place: "nvidia.com/gpu allocate * env NVIDIA_*",
        theirs: "enabled",
        ours: "(nothing)",
        why: "v0.19 asks for GDRCopy, GPUDirect Storage and InfiniBand unless told otherwise; v0.20 and carve do not",
    },
    Intended {
        scenario: "*",
        place: "* prefer *",
        theirs: "[]",
        ours: "Unknown: cannot choose *",
        why: "more than there is was asked for; NVIDIA answers with nothing for whole GPUs, carve says what is wrong",
    },
    Intended {
        scenario: "*",
        place: "* prefer *",
        theirs: "Unknown: *not enough available devices to satisfy allocation",
        ours: "Unknown: cannot choose *",
        why: "the same refusal, with the numbers and what to do",
    },
    Intended {
        scenario: "*, nodes",
        place: "* allocate * nodes named",
        theirs: "*",
        ours: "*",
        why: "NVIDIA names a node once for each share or MIG device that needs it; carve once",
    },
    Intended {
        scenario: "*CDI*",
        place: "cdi k8s.device-plugin.nvidia.com/gpu version",
        theirs: "\"0.3.0\"",
        ours: "\"0.5.0\"",
        why: "carve always writes where a node is on the host, which takes version 0.5; NVIDIA where the roots differ",
    },
    Intended {
        scenario: "*CDI*",
        place: "cdi * every container hooks",
        theirs: "\"createContainer\" \"hook\"*",
        ours: "\"createContainer\" \"cdi-hook\"",
        why: "one hook of carve's own instead of several calls of nvidia-ctk, which need not be installed then",
    },
    Intended {
        scenario: "*CDI*",
        place: "cdi * every container env \"NVIDIA_CTK_LIBCUDA_DIR=*",
        theirs: "there",
        ours: "(nothing)",
        why: "tells NVIDIA's hooks a folder; carve does not call them",
    },
    Intended {
        scenario: "*CDI*",
        place: "cdi * every container mount \"/bin/nvidia-*",
        theirs: "there",
        ours: "(nothing)",
        why: "carve puts programs into /usr/bin wherever the node has them; NVIDIA where the node has them",
    },
    Intended {
        scenario: "*CDI*",
        place: "cdi * every container mount \"/usr/bin/nvidia-*",
        theirs: "(nothing)",
        ours: "there",
        why: "the other side of the same",
    },
    Intended {
        scenario: "*CDI*",
        place: "cdi k8s.device-plugin.nvidia.com/gpu=all *",
        theirs: "(nothing)",
        ours: "*",
        why: "carve also has a name for all devices together, as nvidia-ctk gives one",
    },
    Intended {
        scenario: "IMEX, CDI request",
        place: "cdi k8s.device-plugin.nvidia.com/imex-channel=0 node *",
        theirs: "*",
        ours: "*",
        why: "the file says what number and which permissions the channel's node has; NVIDIA leaves that to the runtime",
    },
    Intended {
        scenario: "MPS",
        place: "* allocate * env CUDA_MPS_PIPE_DIRECTORY",
        theirs: "/mps/nvidia.com/gpu/pipe",
        ours: "/mps/GPU-*/pipe",
        why: "each GPU has a daemon of its own, so that a client reaches one GPU; NVIDIA has one daemon for all",
    },
    Intended {
        scenario: "MPS",
        place: "* allocate * mounts",
        theirs: "/run/nvidia/mps/nvidia.com/gpu/pipe on *; /run/nvidia/mps/shm on /dev/shm *",
        ours: "/run/nvidia/mps/GPU-*/pipe on *; /run/nvidia/mps/GPU-*/shm on /dev/shm *",
        why: "the folders of that daemon, and memory that only its clients see",
    },
    Intended {
        scenario: "MPS",
        place: "* allocate * env CUDA_VISIBLE_DEVICES",
        theirs: "(nothing)",
        ours: "GPU-*",
        why: "a client must name the GPU of its daemon",
    },
    Intended {
        scenario: "MPS",
        place: "* allocate none 0 *",
        theirs: "*",
        ours: "*",
        why: "a container without a device has no daemon; kubelet never asks for one",
    },
    Intended {
        scenario: "MPS",
        place: "* device *",
        theirs: "Healthy *",
        ours: "Unhealthy *",
        why: "the stand-in for the MPS daemon does not answer; NVIDIA asks once and takes silence for a yes, carve does not",
    },
];

/// In what pods see on a real kubelet, beside what kubelet is told.
pub const PODS: &[Intended] = &[Intended {
    scenario: "*CDI*",
    place: "* pod * env NVIDIA_CTK_LIBCUDA_DIR",
    theirs: "/*",
    ours: "(nothing)",
    why: "what NVIDIA's CDI file tells its hooks; carve does not call them",
}];

/// In labels.
pub const LABELS: &[Intended] = &[Intended {
    scenario: "*",
    place: "nvidia.com/gpu.present",
    theirs: "(nothing)",
    ours: "true",
    why: "NVIDIA's operator sets this one, which carve stands in for as well",
}];
