//! Folders without room: the agent serves what it can, says what it could not write and why, leaves no half of a file, and
//! writes everything once there is room.

use crate::GPU;
use crate::node::{Node, allocated, devices};
use carve_gpu_host::GpuEvent;
use carve_gpu_model::GpuIndex;
use carve_test_support::PATIENCE;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

/// Folders that have no room, each a file system of its own that only the agent sees.
const SMALL: [&str; 3] = ["state", "cdi", "validations"];
const CDI: &str = "cdi/k8s.device-plugin.nvidia.com-gpu.json";
const CHECKPOINT: &str = "state/agent.json";

/// Each folder has room for 256 KiB and 64 files, and is full in both ways when the agent starts.
const SCRIPT: &str = "set -e; for folder in state cdi validations; do mkdir $folder; \
     mount -t tmpfs -o size=256k,nr_inodes=64 none $folder; cat /dev/zero > $folder/filler 2>/dev/null || true; \
     n=0; while touch $folder/filler-$n 2>/dev/null; do n=$((n + 1)); done; done; exec \"$@\"";

/// Whether this test may mount, as root or in a user namespace of its own; says that it is skipped where not.
fn namespaces() -> Option<Vec<&'static str>> {
    let ways = [vec!["--mount"], vec!["--user", "--map-root-user", "--mount"]];
    let works = |way: &Vec<&str>| {
        Command::new("unshare")
            .args(way)
            .args(["mount", "-t", "tmpfs", "none", "/mnt"])
            .output()
            .is_ok_and(|output| output.status.success())
    };
    let way = ways.into_iter().find(works);
    if way.is_none() {
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "no mount namespaces, and CI must not skip");
        eprintln!("SKIPPED: mount namespaces can not be made here");
    }
    way
}

/// The small folders, as the agent sees them.
struct Disk<'a> {
    node: &'a Node,
}

impl Disk<'_> {
    fn path(&self, name: &str) -> PathBuf {
        self.node.inside(name)
    }

    /// Files may be made again, but nothing fits into them.
    fn free_names(&self) {
        for folder in SMALL {
            for file in fs::read_dir(self.path(folder)).expect("a folder").flatten() {
                if file.file_name().to_string_lossy().starts_with("filler-") {
                    fs::remove_file(file.path()).expect("a file");
                }
            }
        }
    }

    fn free_room(&self) {
        for folder in SMALL {
            fs::remove_file(self.path(folder).join("filler")).expect("a file");
        }
    }

    fn fill(&self) {
        for folder in SMALL {
            let mut file = fs::File::create(self.path(folder).join("filler")).expect("a file");
            while file.write_all(&[0; 4096]).is_ok() {}
        }
    }

    /// What the file says, if it is there; a file that is there is whole.
    fn whole(&self, name: &str) -> Option<serde_json::Value> {
        let text = fs::read_to_string(self.path(name)).ok()?;
        Some(serde_json::from_str(&text).unwrap_or_else(|error| panic!("half of {name}: {error}: {text}")))
    }

    /// Looks again and again for a while that nothing is there by halves, and that no leftover takes the room.
    async fn stays_whole(&self) {
        let end = Instant::now() + Duration::from_millis(2500);
        while Instant::now() < end {
            for name in [CHECKPOINT, CDI] {
                self.whole(name);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Waits until the agent has said something with all these words in one line.
async fn says(node: &Node, words: &[&str]) {
    let give_up = Instant::now() + PATIENCE;
    while !node.said().lines().any(|line| words.iter().all(|word| line.contains(word))) {
        assert!(Instant::now() < give_up, "it never says {words:?}:\n{}", node.said());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_is_told_and_written_when_there_is_room() {
    let Some(way) = namespaces() else { return };
    let mut node = Node::new();
    node.install_driver();
    node.install_driver_root();
    let kubelet = node.kubelet().await;
    let agent = node.command();
    let mut command = Command::new("unshare");
    command.args(way).args(["sh", "-c", SCRIPT, "sh"]).arg(agent.get_program()).args(agent.get_args());
    command.args(["--device-list-strategy", "cdi-cri", "--probe-seconds", "1"]);
    command.env_clear().envs(agent.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.current_dir(node.path("."));
    node.start_as(&mut command);

    // No device may be given away that containers could not be started with; everything else works.
    let listed = kubelet.devices_when(GPU, "both GPUs are listed", |devices| devices.len() == 2).await;
    assert!(listed.iter().all(|(_, health)| health == "Unhealthy"), "{listed:?}");
    node.ready().await;
    let full = "No space left on device";
    says(&node, &["CdiFailed", "k8s.device-plugin.nvidia.com-gpu.json", full]).await;
    says(&node, &["Checkpoint", "state/agent.json", full]).await;
    says(&node, &["ValidationFiles", "validations", full]).await;

    // A file can be made, but what belongs into it does not fit.
    let disk = Disk { node: &node };
    disk.free_names();
    disk.stays_whole().await;
    assert_eq!((disk.whole(CHECKPOINT), disk.whole(CDI)), (None, None));
    says(&node, &["ValidationFiles", "results of validation are in"]).await;

    disk.free_room();
    let ids = devices(&kubelet, GPU, 2).await;
    says(&node, &["CdiFailed", "can be served again"]).await;
    says(&node, &["Checkpoint", "written down again"]).await;
    assert!(disk.whole(CDI).is_some_and(|spec| spec["devices"].as_array().is_some_and(|all| all.len() == 3)));
    assert!(disk.whole(CHECKPOINT).is_some_and(|known| known["health"]["gpus"] == serde_json::json!([])));
    let files: Vec<bool> = ["driver-ready", "toolkit-ready", "plugin-ready", "cuda-ready"]
        .iter()
        .map(|file| disk.path("validations").join(file).exists())
        .collect();
    assert_eq!(files, [true; 4]);

    // Full again, and a GPU gets sick: what is on disk stays whole and old, what is offered is new.
    disk.fill();
    let xid = GpuEvent { gpu: GpuIndex(0), xid: 79, gpu_instance: None, compute_instance: None };
    node.machine().change_world(|host| host.raise(xid)).expect("an XID");
    let listed =
        kubelet.devices_when(GPU, "one is sick", |all| all.iter().any(|(_, h)| h == "Unhealthy")).await;
    let well: Vec<String> = listed.iter().filter(|(_, h)| h == "Healthy").map(|(id, _)| id.clone()).collect();
    assert_eq!(well.len(), 1, "{listed:?}");
    assert_eq!(
        allocated(&kubelet, GPU, &well).await.cdi_devices.len(),
        1,
        "the other one is still given away"
    );
    disk.stays_whole().await;
    assert!(disk.whole(CHECKPOINT).is_some_and(|known| known["health"]["gpus"] == serde_json::json!([])));
    assert_eq!(node.said().matches("Checkpoint").count(), 3, "each change is told once:\n{}", node.said());
    disk.free_room();
    let give_up = Instant::now() + PATIENCE;
    while !disk.whole(CHECKPOINT).is_some_and(|known| known["health"]["gpus"][0]["faults"][0]["xid"] == 79) {
        assert!(Instant::now() < give_up, "the fault is not written down:\n{}", node.said());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let left: Vec<String> = SMALL
        .iter()
        .flat_map(|folder| fs::read_dir(disk.path(folder)).expect("a folder").flatten())
        .map(|file| file.file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with('.') || name.ends_with(".new"))
        .collect();
    assert_eq!(left, Vec::<String>::new(), "nothing half-written was left");
    assert_eq!(ids.len(), 2);
}
