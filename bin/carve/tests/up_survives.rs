//! What `carve up` has acknowledged is there again, whenever it is killed and however full its disk is.

mod running;

use carve_test_support::mangle::Dice;
use running::{Up, deployment, folder, until};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What somebody knows of its objects: a number for each that is there.
type Known = BTreeMap<String, Option<u64>>;

/// Somebody who changes objects of its own, one after the other.
struct Author {
    number: usize,
    dice: Dice,
    known: Known,
    /// What was asked last and not answered: it may have become so, or not.
    open: Option<(String, Option<u64>)>,
    acknowledged: usize,
}

fn config_map(name: &str, value: u64) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{a: \"{value}\", b: \"{value}\"}}\n"
    )
}

impl Author {
    fn new(number: usize, seed: u64) -> Self {
        let dice = Dice::new(seed);
        Author { number, dice, known: Known::new(), open: None, acknowledged: 0 }
    }

    /// The next change: of which object, what becomes of it, and how that is asked.
    fn next(&mut self) -> (String, Option<u64>, &'static str, &'static str, String) {
        let json = "application/json";
        let (kind, prefix) = *self.dice.one_of(&[("ConfigMap", "m"), ("Deployment", "d")]);
        let name = format!("{prefix}-{}-{}", self.number, self.dice.below(4));
        let there = self.known.get(&name).copied().flatten().is_some();
        let value = self.dice.roll() % 3;
        let asked = format!("{{\"kind\":\"{kind}\",\"namespace\":\"default\",\"name\":\"{name}\"");
        match self.dice.below(3) {
            0 if there => (name, None, "/api/v1/delete", json, format!("{asked}}}")),
            1 if there && kind == "Deployment" => {
                let body = format!("{asked},\"replicas\":{value}}}");
                (name, Some(value), "/api/v1/scale", json, body)
            }
            _ => {
                let text = match kind {
                    "ConfigMap" => config_map(&name, value),
                    _ => deployment(&name, u32::try_from(value).expect("a small number"), "cpu: 1m"),
                };
                (name, Some(value), "/api/v1/apply", "application/yaml", text)
            }
        }
    }

    /// Changes one object after the other until nobody answers.
    fn work(&mut self, url: &str, over: &AtomicBool) {
        let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
        while !over.load(Ordering::Relaxed) {
            let (name, value, path, kind, body) = self.next();
            self.open = Some((name.clone(), value));
            let sent = agent.post(format!("{url}{path}")).header("content-type", kind).send(&body);
            let Ok(mut answer) = sent else { return };
            let Ok(text) = answer.body_mut().read_to_string() else { return };
            assert_eq!(answer.status().as_u16(), 200, "{path} {body}: {text}");
            self.known.insert(name, value);
            self.open = None;
            self.acknowledged += 1;
        }
    }

    /// Compares with what is there after all; what was open is known from then on.
    fn compare(&mut self, there: &Known, round: usize) {
        for (name, value) in self.known.clone() {
            let found = there.get(&name).copied().flatten();
            let may_be = self.open.as_ref().filter(|(open, _)| *open == name).map(|(_, value)| *value);
            assert!(
                found == value || Some(found) == may_be,
                "round {round}, {name}: {found:?}, acknowledged {value:?}, open {may_be:?}"
            );
        }
        if let Some((name, value)) = self.open.take() {
            let found = there.get(&name).copied().flatten();
            assert!(
                found == value || found == self.known.get(&name).copied().flatten(),
                "round {round}, {name}: {found:?}"
            );
            self.known.insert(name, found);
        }
    }
}

/// What is there. An object that is half of one thing and half of another is none.
fn there(up: &Up) -> Known {
    let mut known = Known::new();
    let objects = ["configmaps", "deployments"].into_iter().flat_map(|kind| {
        let list: Value = serde_json::from_str(&up.said(&["get", kind, "-o", "json"], "")).expect("JSON");
        list["items"].as_array().expect("a list").clone()
    });
    for object in objects {
        let value = match object["kind"].as_str() {
            Some("ConfigMap") => {
                assert_eq!(object["data"]["a"], object["data"]["b"], "{object}");
                object["data"]["a"].as_str().and_then(|text| text.parse().ok())
            }
            _ => object["spec"]["replicas"].as_u64(),
        };
        known.insert(
            object["metadata"]["name"].as_str().expect("a name").to_owned(),
            Some(value.expect("a number")),
        );
    }
    known
}

#[test]
fn whenever_it_is_killed_everything_that_was_acknowledged_is_there() {
    let words = ["--fleet", "g5.xlarge=1", "--empty", "--allow-changes"];
    let mut up = Up::start(folder(), &words);
    let mut dice = Dice::new(10);
    let mut authors: Vec<Author> = (0..3).map(|number| Author::new(number, number as u64)).collect();
    for round in 0..6 {
        let (over, url) = (AtomicBool::new(false), up.url.clone());
        std::thread::scope(|scope| {
            for author in &mut authors {
                scope.spawn(|| author.work(&url, &over));
            }
            std::thread::sleep(Duration::from_millis(100 + dice.roll() % 900));
            up.kill();
            over.store(true, Ordering::Relaxed);
        });
        up = up.kill_and_start(&words);
        let found = until("objects are there", || Some(there(&up)));
        authors.iter_mut().for_each(|author| author.compare(&found, round));
    }
    let acknowledged: usize = authors.iter().map(|author| author.acknowledged).sum();
    assert!(acknowledged > 50, "{acknowledged} changes are too few to say anything");
}

/// A file system of a few MiB, which is gone with this.
struct Small(PathBuf);

impl Small {
    fn mount(at: &Path) -> Option<Self> {
        fs::create_dir_all(at).expect("a folder");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=3m", "carve-test"]).arg(at).output();
        mounted.is_ok_and(|output| output.status.success()).then(|| Small(at.to_owned()))
    }

    /// Takes all the room that is left.
    fn fill(&self) -> PathBuf {
        let path = self.0.join("ballast");
        let mut file = fs::File::create(&path).expect("a file");
        for size in [4096, 1] {
            while file.write_all(&vec![0; size]).is_ok() {}
        }
        path
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_is_said_and_loses_nothing() {
    let base = folder();
    let (at, told) = (base.path().join("small"), base.path().join("told"));
    let Some(small) = Small::mount(&at) else {
        assert_ne!(
            std::env::var("CI").as_deref(),
            Ok("true"),
            "a small file system needs root, and CI must not skip"
        );
        eprintln!("SKIPPED: a small file system can only be mounted by root");
        return;
    };
    let words = ["--fleet", "g5.xlarge=1", "--empty", "--allow-changes"];
    let mut up = Up::start_at(folder(), &at, &told, &words);
    let apply = |up: &Up, text: &str| up.post("/api/v1/apply", "application/yaml", text);
    assert_eq!(apply(&up, &config_map("first", 1)).0, 200);
    // Some are on their way to a machine when there is no room any more.
    assert_eq!(apply(&up, &deployment("web", 20, "cpu: 1m")).0, 200);
    let ballast = small.fill();
    let mut known = vec!["first".to_owned()];
    let refused = until("there is no room", || {
        let name = format!("m-{}", known.len());
        let (code, answer) = apply(&up, &config_map(&name, 1));
        if code == 200 {
            known.push(name);
            return None;
        }
        Some((code, answer))
    });
    assert_eq!(refused.0, 507, "{}", refused.1);
    assert!(refused.1["message"].as_str().is_some_and(|words| words.contains("no room")), "{}", refused.1);
    assert!(
        refused.1["hint"].as_str().is_some_and(|words| words.contains("free some space")),
        "{}",
        refused.1
    );
    // It is looked at all the while, and what it can not do is not said again and again.
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(6) {
        assert_eq!(up.get("/api/v1/picture").0, 200);
        std::thread::sleep(Duration::from_millis(200));
    }
    let said = fs::read_to_string(&told).expect("what it said");
    assert!(said.lines().count() < 20, "{said}");
    // With room it goes on by itself.
    fs::remove_file(ballast).expect("room");
    assert_eq!(apply(&up, &config_map("last", 1)).0, 200);
    known.push("last".to_owned());
    let running = || up.said_at(&at, &["get", "deployment", "web", "--no-headers"]);
    until("all run", || running().contains("20/20").then_some(()));
    up.kill();
    let up = Up::start_at(folder(), &at, &told, &words);
    let found = up.said_at(&at, &["get", "configmaps", "-o", "name"]);
    assert!(known.iter().all(|name| found.contains(&format!("configmap/{name}\n"))), "{known:?}: {found}");
}
