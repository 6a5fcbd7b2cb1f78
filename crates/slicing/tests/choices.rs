//! Names and device choices of a configuration: what holds where they are honoured, and what NVIDIA's plugin makes of
//! the same file.
#![allow(clippy::expect_used, clippy::panic, reason = "the panic is the test's failure")]

mod recorded;

use carve_formats::DevicePluginConfig;
use carve_slicing::{
    Answer, AnswerContext, AnswerError, NodeGpus, Offer, OfferError, Resource, Settings, answer, offer,
};
use recorded::machine;

fn settings(config: &str, honour_choices: bool) -> Settings {
    let parsed = DevicePluginConfig::parse(config);
    let config = parsed.value.unwrap_or_else(|| panic!("not read:\n{config}"));
    Settings::new(&config, honour_choices).expect("settings")
}

fn honoured(node: &NodeGpus, config: &str) -> Result<Offer, OfferError> {
    offer(node, &settings(config, true))
}

/// What is offered, a line for each resource: place in the driver's order, mechanism, number of devices.
fn told(offer: &Offer) -> Vec<String> {
    let line = |resource: &Resource| {
        let mut parts: Vec<(String, usize)> = Vec::new();
        for device in &resource.devices {
            let share = device.share;
            let text = format!("{} {}*{}", device.index, share.mechanism.label(), share.replicas);
            match parts.iter_mut().find(|(known, _)| *known == text) {
                Some((_, devices)) => *devices += 1,
                None => parts.push((text, 1)),
            }
        }
        let parts = parts.iter().map(|(text, devices)| format!("{text} has {devices}"));
        format!("{}: {}", resource.name.local(), parts.collect::<Vec<_>>().join(", "))
    };
    offer.resources.values().map(line).collect()
}

fn uuid(node: &NodeGpus, gpu: usize) -> String {
    node.gpus[gpu].part().to_string()
}

/// A node on which every mechanism is at work: GPU 0 to 2 whole, GPU 3 with MIG devices.
fn all_mechanisms() -> NodeGpus {
    machine("H200*4", "3=1g.18gb,1g.18gb,2g.35gb")
}

/// GPU 1 in turns by its index, GPU 2 by MPS by its UUID, one MIG profile in turns and one by MPS. GPU 0 is left alone.
const ALL_MECHANISMS: &str = "version: v1
flags:
  migStrategy: mixed
  plugin: {deviceListStrategy: [cdi-cri]}
sharing:
  timeSlicing:
    resources:
    - {name: nvidia.com/gpu, devices: [1], replicas: 4}
    - {name: nvidia.com/mig-1g.18gb, replicas: 3}
  mps:
    resources:
    - {name: nvidia.com/gpu, devices: [GPU-10000002-aaaa-bbbb-cccc-000000000003], replicas: 2}
    - {name: nvidia.com/mig-2g.35gb, replicas: 5}
";

#[test]
fn one_node_with_every_mechanism() {
    let offer = honoured(&all_mechanisms(), ALL_MECHANISMS).expect("an offer");
    assert_eq!(
        told(&offer),
        [
            "gpu: 0 none*1 has 1, 1 time-slicing*4 has 4, 2 mps*2 has 2",
            "mig-1g.18gb: 3:0 time-slicing*3 has 3, 3:1 time-slicing*3 has 3",
            "mig-2g.35gb: 3:2 mps*5 has 5",
        ]
    );
    assert!(offer.remarks.is_empty(), "{:?}", offer.remarks);
}

#[test]
fn the_same_file_without_choices_is_mps_everywhere() {
    let offer = offer(&all_mechanisms(), &settings(ALL_MECHANISMS, false)).expect("an offer");
    assert_eq!(
        told(&offer),
        [
            "gpu: 0 mps*2 has 2, 1 mps*2 has 2, 2 mps*2 has 2",
            "mig-1g.18gb: 3:0 none*1 has 1, 3:1 none*1 has 1",
            "mig-2g.35gb: 3:2 mps*5 has 5",
        ]
    );
    assert!(offer.remarks.iter().any(|r| r.contains("time-slicing is ignored")), "{:?}", offer.remarks);
}

/// Asks for devices of a resource by `index` or `index::share`.
fn ask(node: &NodeGpus, config: &str, resource: &str, wanted: &[&str]) -> Result<Answer, AnswerError> {
    let settings = settings(config, true);
    let offer = offer(node, &settings).expect("an offer");
    let name = resource.parse().expect("a name");
    let resource = offer.resources.get(&name).expect("the resource is offered");
    let id = |wanted: &&str| {
        let (index, share) = wanted.split_once("::").map_or((*wanted, None), |(i, s)| (i, Some(s)));
        let device = resource.devices.iter().find(|device| {
            device.index == index && device.id.as_str().split_once("::").map(|(_, share)| share) == share
        });
        device.unwrap_or_else(|| panic!("no {wanted}")).id.to_string()
    };
    let ids: Vec<String> = wanted.iter().map(id).collect();
    answer(resource, &ids, &settings, &AnswerContext::default())
}

fn cdi(parts: &[String]) -> Vec<String> {
    parts.iter().map(|part| format!("k8s.device-plugin.nvidia.com/gpu={part}")).collect()
}

#[test]
fn each_mechanism_has_its_own_answer() {
    let node = all_mechanisms();
    let get = |resource: &str, wanted: &[&str]| ask(&node, ALL_MECHANISMS, resource, wanted).expect("given");
    let pipe = |answer: &Answer| answer.envs.get("CUDA_MPS_PIPE_DIRECTORY").cloned();

    for (wanted, gpu) in [("0", 0), ("1::3", 1)] {
        let given = get("nvidia.com/gpu", &[wanted]);
        assert_eq!(given.cdi_devices, cdi(&[uuid(&node, gpu)]));
        assert!(given.envs.is_empty() && given.mounts.is_empty(), "no daemon: {given:?}");
    }
    let given = get("nvidia.com/gpu", &["2::1"]);
    assert_eq!(given.cdi_devices, cdi(&[uuid(&node, 2)]));
    assert_eq!(pipe(&given), Some(format!("/mps/{}/pipe", uuid(&node, 2))));
    assert_eq!(given.envs["CUDA_VISIBLE_DEVICES"], uuid(&node, 2));

    let migs: Vec<String> = node.gpus[3].migs.iter().map(|mig| mig.part().to_string()).collect();
    let given = get("nvidia.com/mig-1g.18gb", &["3:1::2", "3:1::0"]);
    assert_eq!(given.cdi_devices, cdi(&migs[1..2]), "two shares of one device are one device");
    assert_eq!(pipe(&given), None);
    let given = get("nvidia.com/mig-2g.35gb", &["3:2::4"]);
    assert_eq!(given.cdi_devices, cdi(&migs[2..]));
    assert_eq!(pipe(&given), Some(format!("/mps/{}/pipe", migs[2])), "the MIG device has its own daemon");
    let from: Vec<&str> = given.mounts.iter().map(|mount| mount.host_path.as_str()).collect();
    let own = |folder: &str| format!("/run/nvidia/mps/{}/{folder}", migs[2]);
    assert_eq!(from, [own("pipe"), own("shm")]);
}

#[test]
fn a_share_by_mps_goes_with_no_other_part() {
    let node = all_mechanisms();
    let gpu = |config: &str, wanted: &[&str]| ask(&node, config, "nvidia.com/gpu", wanted);
    // MPS shares are one to a container unless the file says otherwise, and a resource has one rule for that.
    for wanted in [["0", "2::0"], ["1::0", "1::1"], ["2::0", "2::1"]] {
        match gpu(ALL_MECHANISMS, &wanted) {
            Err(AnswerError::SeveralShares { found: 2, .. }) => {}
            other => panic!("{wanted:?}: {other:?}"),
        }
    }
    let several = ALL_MECHANISMS.replace("  mps:\n", "  mps:\n    failRequestsGreaterThanOne: false\n");
    for (wanted, second) in [(["0", "2::0"], 0), (["2::0", "1::2"], 1)] {
        match gpu(&several, &wanted) {
            Err(error @ AnswerError::SeveralDaemons { .. }) => {
                let text = error.to_string();
                let expected =
                    format!("that of {} it does not reach {};", uuid(&node, 2), uuid(&node, second));
                assert!(text.contains(&expected), "{text}");
            }
            other => panic!("{wanted:?}: {other:?}"),
        }
    }
    let both = gpu(&several, &["2::0", "2::1"]).expect("two shares of one GPU");
    assert_eq!(both.cdi_devices, cdi(&[uuid(&node, 2)]));
    let apart = gpu(&several, &["0", "1::2"]).expect("no daemon is involved");
    assert_eq!(apart.cdi_devices, cdi(&[uuid(&node, 0), uuid(&node, 1)]));
    assert!(apart.envs.is_empty());
}

/// The rule of MPS is the resource's, wherever in the order the GPU with the daemon is; whole GPUs are no shares.
#[test]
fn whole_gpus_beside_shares_are_given_together() {
    let (node, config) = (machine("H200*4", ""), two_rules("[1]", "[0]"));
    let both = ask(&node, &config, "nvidia.com/gpu", &["2", "3"]).expect("two whole GPUs");
    assert_eq!(both.envs["NVIDIA_VISIBLE_DEVICES"], format!("{},{}", uuid(&node, 2), uuid(&node, 3)));
    for wanted in [["0::0", "0::1"], ["1::0", "1::1"], ["2", "1::0"]] {
        match ask(&node, &config, "nvidia.com/gpu", &wanted) {
            Err(AnswerError::SeveralShares { found: 2, .. }) => {}
            other => panic!("{wanted:?}: {other:?}"),
        }
    }
}

const RENAMED: &str = "version: v1
sharing:
  timeSlicing:
    renameByDefault: true
    resources:
    - {name: nvidia.com/gpu, rename: nvidia.com/gpu-in-turns, devices: [0], replicas: 2}
    - {name: nvidia.com/gpu, devices: [1], replicas: 3}
  mps:
    resources:
    - {name: nvidia.com/gpu, rename: nvidia.com/gpu-together, devices: [2], replicas: 4}
";

#[test]
fn renames_keep_mechanisms_apart() {
    let node = machine("H200*4", "");
    let renamed = honoured(&node, RENAMED).expect("an offer");
    assert_eq!(
        told(&renamed),
        [
            "gpu: 3 none*1 has 1",
            "gpu-in-turns: 0 time-slicing*2 has 2",
            "gpu-together: 2 mps*4 has 4",
            "gpu.shared: 1 time-slicing*3 has 3",
        ]
    );
    // The rule of MPS for one share each does not reach resources of another name.
    let two =
        ask(&node, RENAMED, "nvidia.com/gpu-in-turns", &["0::0", "0::1"]).expect("time-slicing allows it");
    assert_eq!(two.envs["NVIDIA_VISIBLE_DEVICES"], uuid(&node, 0));
    assert!(ask(&node, RENAMED, "nvidia.com/gpu-together", &["2::0", "2::1"]).is_err());

    let theirs = offer(&node, &settings(RENAMED, false)).expect("an offer");
    let all = (0..4).map(|gpu| format!("{gpu} mps*4 has 4")).collect::<Vec<_>>().join(", ");
    assert_eq!(told(&theirs), [format!("gpu: {all}")], "one mechanism, no choice and no other name");
}

#[test]
fn so_many_devices_are_the_first_ones() {
    let node = machine("H200*4", "");
    let config = "version: v1
sharing:
  timeSlicing:
    resources: [{name: nvidia.com/gpu, devices: 2, replicas: 10}]
";
    assert_eq!(
        told(&honoured(&node, config).expect("an offer")),
        ["gpu: 0 time-slicing*10 has 10, 1 time-slicing*10 has 10, 2 none*1 has 1, 3 none*1 has 1"]
    );
    let theirs = offer(&node, &settings(config, false)).expect("an offer");
    assert_eq!(theirs.resources.values().map(|resource| resource.devices.len()).sum::<usize>(), 40);
}

#[test]
fn more_devices_than_there_are_is_told() {
    let node = machine("H200*4", "");
    let config = |count: u32| {
        let rule = format!("{{name: nvidia.com/gpu, devices: {count}, replicas: 10}}");
        format!("version: v1\nsharing: {{timeSlicing: {{resources: [{rule}]}}}}\n")
    };
    let remarks = |count| honoured(&node, &config(count)).expect("an offer").remarks;
    assert_eq!(remarks(4), [""; 0]);
    assert_eq!(
        remarks(5),
        [
            "sharing.timeSlicing.resources[0]: devices: 5 are to be shared, and this node has 4 nvidia.com/gpu now; all of them are"
        ]
    );
    assert_eq!(
        told(&honoured(&node, &config(5)).expect("an offer")),
        told(&honoured(&node, &config(4)).expect("an offer"))
    );
    let theirs = offer(&node, &settings(&config(5), false)).expect("an offer");
    assert_eq!(theirs.remarks, [""; 0], "a choice that is not honoured can not fall short");
}

#[test]
fn a_mig_device_is_chosen_by_every_name_it_has() {
    let node = machine("H200*2", "1=1g.18gb,1g.18gb,1g.18gb");
    let mig = &node.gpus[1].migs[1];
    let old =
        format!("MIG-{}/{}/{}", node.gpus[1].gpu.uuid, mig.device.gpu_instance, mig.device.compute_instance);
    for name in ["1:1".to_owned(), mig.part().to_string(), old] {
        let config = format!(
            "version: v1
flags: {{migStrategy: mixed}}
sharing:
  timeSlicing:
    resources: [{{name: nvidia.com/mig-1g.18gb, devices: ['{name}'], replicas: 2}}]
"
        );
        let offer = honoured(&node, &config).expect("an offer");
        let expected = "mig-1g.18gb: 1:0 none*1 has 1, 1:1 time-slicing*2 has 2, 1:2 none*1 has 1";
        assert_eq!(told(&offer), ["gpu: 0 none*1 has 1", expected], "{name}");
    }
}

const NAMES: &str = "version: v1
flags: {migStrategy: mixed}
resources:
  gpus:
  - {pattern: 'NVIDIA H*', name: large}
  - {pattern: 'Tesla *-16GB', name: old}
  - {pattern: '*', name: gpu}
  mig:
  - {pattern: '1g.*', name: sliver}
sharing:
  timeSlicing:
    resources: [{name: nvidia.com/old, replicas: 2}]
";

#[test]
fn the_first_pattern_that_fits_names_a_device() {
    let node = machine("H200*2,V100*1,T4*1", "1=1g.18gb,2g.35gb");
    let offered = honoured(&node, NAMES).expect("an offer");
    assert_eq!(
        told(&offered),
        [
            "gpu: 3 none*1 has 1",
            "large: 0 none*1 has 1",
            "mig-2g.35gb: 1:1 none*1 has 1",
            "old: 2 time-slicing*2 has 2",
            "sliver: 1:0 none*1 has 1",
        ]
    );
    let theirs = offer(&node, &settings(NAMES, false)).expect("an offer");
    assert_eq!(
        told(&theirs),
        [
            "gpu: 0 none*1 has 1, 2 none*1 has 1, 3 none*1 has 1",
            "mig-1g.18gb: 1:0 none*1 has 1",
            "mig-2g.35gb: 1:1 none*1 has 1",
        ],
        "names are read and not used"
    );
    assert!(theirs.remarks.iter().any(|r| r.contains("no nvidia.com/old")), "{:?}", theirs.remarks);
}

#[test]
fn a_gpu_without_a_name_is_told() {
    let node = machine("H200*1,T4*1", "");
    let config = NAMES.replace("  - {pattern: '*', name: gpu}\n", "");
    match honoured(&node, &config) {
        Err(error @ OfferError::NoPattern { .. }) => {
            let text = error.to_string();
            assert!(text.contains("GPU 'Tesla T4'") && text.contains("pattern: \"*\""), "{text}");
        }
        other => panic!("{other:?}"),
    }
    let theirs = offer(&node, &settings(&config, false)).expect("an offer");
    assert_eq!(told(&theirs), ["gpu: 0 none*1 has 1, 1 none*1 has 1"]);
}

/// A file with one rule for time-slicing and one for MPS, by their devices.
fn two_rules(time_slicing: &str, mps: &str) -> String {
    format!(
        "version: v1
sharing:
  timeSlicing:
    resources: [{{name: nvidia.com/gpu, devices: {time_slicing}, replicas: 2}}]
  mps:
    resources: [{{name: nvidia.com/gpu, devices: {mps}, replicas: 2}}]
"
    )
}

#[test]
fn a_device_shared_twice_is_an_error() {
    let node = machine("H200*2", "");
    let second = uuid(&node, 1);
    let by_uuid = format!("[{second}]");
    for (time_slicing, mps) in [("all", by_uuid.as_str()), ("[1]", "all"), ("[0, 1]", &by_uuid), ("2", "[1]")]
    {
        let config = two_rules(time_slicing, mps);
        match honoured(&node, &config) {
            Err(OfferError::SharedTwice { part, first, second: other }) => {
                assert_eq!(part.as_str(), second, "{config}");
                assert_eq!(
                    (first.as_str(), other.as_str()),
                    ("sharing.timeSlicing.resources[0]", "sharing.mps.resources[0]")
                );
            }
            other => panic!("{config}: {other:?}"),
        }
        let theirs = offer(&node, &settings(&config, false)).expect("MPS holds");
        assert_eq!(told(&theirs), ["gpu: 0 mps*2 has 2, 1 mps*2 has 2"]);
    }
    assert!(honoured(&node, &two_rules("[0]", "[1]")).is_ok());
}

#[test]
fn a_device_that_is_not_there_is_an_error() {
    let node = machine("H200*2", "1=1g.18gb");
    let mig = node.gpus[1].migs[0].part().to_string();
    // GPU 1 is there, but its MIG device is what is offered of it.
    for device in ["7", "1", "1:0", "GPU-99999999-aaaa-bbbb-cccc-000000000001", mig.as_str()] {
        let config = format!(
            "version: v1
flags: {{migStrategy: mixed}}
sharing:
  timeSlicing:
    resources: [{{name: nvidia.com/gpu, devices: [0, '{device}'], replicas: 2}}]
"
        );
        match honoured(&node, &config) {
            Err(OfferError::NoSuchDevice { rule, device: told, resource }) => {
                assert_eq!(rule, "sharing.timeSlicing.resources[0]");
                assert_eq!((told.as_str(), resource.local()), (device, "gpu"));
            }
            other => panic!("{device}: {other:?}"),
        }
        let theirs = offer(&node, &settings(&config, false)).expect("the choice is not looked at");
        assert_eq!(told(&theirs)[0], "gpu: 0 time-slicing*2 has 2");
    }
}

#[test]
fn more_replicas_than_kubelet_can_list_are_an_error_either_way() {
    let node = machine("H200*1", "");
    let config = |replicas: u64| {
        format!(
            "version: v1
sharing:
  timeSlicing:
    resources: [{{name: nvidia.com/gpu, devices: [0], replicas: {replicas}}}]
"
        )
    };
    for honour in [true, false] {
        let most = offer(&node, &settings(&config(8192), honour)).expect("the most there may be");
        assert_eq!(told(&most), ["gpu: 0 time-slicing*8192 has 8192"]);
        let refused = offer(&node, &settings(&config(8193), honour));
        let rule = "sharing.timeSlicing.resources[0]".to_owned();
        assert_eq!(refused, Err(OfferError::TooManyReplicas { rule, replicas: 8193 }));
    }
}
