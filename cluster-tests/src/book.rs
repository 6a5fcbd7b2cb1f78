//! The book's blocks that need a cluster, typed in the lab as a reader would type them: page by page, from its beginning.

use crate::gpu_node::stand_ins;
use crate::{Cluster, GpuNode, PATIENCE};
use carve_conformance::helm;
use carve_test_support::book::{Block, Needs, Typed, blocks, book};
use serde_json::json;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Pages that are tried where nodes have the agent as device plugin (`tests/book_plugin.rs`).
pub const WITH_PLUGIN: &[&str] = &[
    "operations/install.md",
    "operations/agent.md",
    "operations/repartition.md",
    "operations/from-device-plugin.md",
    "operations/simulate.md",
    "migrate/time-slicing.md",
    "migrate/mig-parted.md",
    "migrate/gpu-operator.md",
];

/// Pages that are tried where nodes serve claims (`tests/book_claims.rs`).
pub const WITH_CLAIMS: &[&str] = &[
    "migrate/hami.md",
    "migrate/volcano.md",
    "migrate/kai.md",
    "migrate/karpenter.md",
    "operations/autoscaling.md",
    "operations/claims.md",
    "operations/controller.md",
    "operations/dashboard.md",
    "operations/monitoring.md",
    "operations/plan.md",
    "operations/webhook.md",
    "troubleshooting.md",
    README,
];

/// The first page of all, seen from the book's folder.
const README: &str = "../README.md";

/// What words of the pages stand for here.
const WORDS: [(&str, &str); 3] = [
    ("NODE", "node0"),
    ("REGISTRY", "localhost"),
    ("NAME", "$(kubectl get resourceclaims -o name | head -1 | cut -d/ -f2)"),
];

/// Words after which a command only looks: a reader types it again until what was done before it is seen.
const LOOKS: [&str; 4] = ["get", "exec", "explain", "top"];

/// What a reader has of the repository around them.
const FOLDERS: [&str; 4] = ["charts", "deploy", "examples", "monitoring"];

/// Labels that pages have readers set, and those that a test sets for them.
const LABELS: [&str; 4] =
    ["carve.dev/agent", "carve.dev/dra-agent", "nvidia.com/mig.config", "nvidia.com/device-plugin.config"];

/// Objects that pages have readers make.
const OBJECTS: [&str; 6] = [
    "namespace/team",
    "namespace/gpu-operator",
    "clusterrole/carve-dashboard",
    "clusterrolebinding/carve-dashboard",
    "crd/clusterpolicies.nvidia.com",
    "crd/prometheusrules.monitoring.coreos.com",
];

/// Those in the namespace of the release, which outlives it.
const BESIDE: [&str; 5] = [
    "configmap/time-slicing-config-fine",
    "configmap/carve-dashboards",
    "secret/carve-dashboard",
    "service/carve-dashboard",
    "role/carve-dashboard-viewer",
];

/// Somebody who reads pages and types what stands there. What pages made goes when this is dropped.
#[derive(Debug)]
pub struct Reader<'a> {
    cluster: &'a Cluster,
    folder: PathBuf,
    /// Blocks, and whether they were typed.
    blocks: Vec<(Block, bool)>,
    wrong: Vec<String>,
}

/// Every block of the book and of the README that needs a cluster.
fn all_blocks() -> Vec<Block> {
    let docs = root().join("docs");
    let mut all = book(&docs).unwrap_or_else(|wrong| panic!("{}", wrong.join("\n")));
    let readme = docs.join(README);
    let text = std::fs::read_to_string(&readme).unwrap_or_else(|error| panic!("README.md: {error}"));
    all.extend(blocks(README, &text).unwrap_or_else(|wrong| panic!("{wrong}")));
    all.retain(|block| block.needs == Needs::Cluster);
    all
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_owned).unwrap_or_default()
}

impl<'a> Reader<'a> {
    /// Somebody who has these pages, `carve`, kubectl and helm. `None` (said aloud) where one of them was not built.
    pub fn new(cluster: &'a Cluster, node: &GpuNode, pages: &[&str]) -> Option<Self> {
        let (helm, carve) = (helm()?, stand_ins()?.join("carve"));
        let folder = node.files("book");
        let values = folder.join("values.json");
        let mut places = cluster.chart_values(node);
        // Pages move agents from node to node by this label.
        places["agent"]["nodeSelector"] = json!({"carve.dev/agent": "true"});
        let programs = folder.join("programs");
        // The lab's node has its driver elsewhere than a real one, which no page tells.
        let script = format!(
            "#!/bin/sh\ncase \"$1\" in install|upgrade|template) exec {0} \"$@\" -f {1} ;; esac\nexec {0} \"$@\"\n",
            helm.display(),
            values.display()
        );
        let written = std::fs::write(&values, places.to_string())
            .and_then(|()| std::fs::create_dir_all(&programs))
            .and_then(|()| symlink(&carve, programs.join("carve")))
            .and_then(|()| std::fs::write(programs.join("helm"), script));
        written.unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        cluster.on_node(&["chmod", "755", &programs.join("helm").display().to_string()]);
        let blocks = all_blocks().into_iter().filter(|block| pages.contains(&block.page.as_str()));
        let blocks = blocks.map(|block| (block, false)).collect();
        let reader = Reader { cluster, folder, blocks, wrong: Vec::new() };
        reader.forget();
        Some(reader)
    }

    /// Types what is left of a page.
    pub fn page(&mut self, page: &str) {
        self.read(page, None);
    }

    /// Types what is left of a page, up to the block with a command that has these words.
    pub fn page_until(&mut self, page: &str, words: &str) {
        self.read(page, Some(words));
    }

    fn read(&mut self, page: &str, words: Option<&str>) {
        let has = |block: &Block| {
            words.is_some_and(|words| block.typed.iter().any(|typed| typed.command.contains(words)))
        };
        let left: Vec<usize> = (0..self.blocks.len())
            .filter(|at| self.blocks[*at].0.page == page && !self.blocks[*at].1)
            .collect();
        assert!(!left.is_empty(), "nothing of docs/{page} is left to be typed");
        for at in left {
            let block = self.blocks[at].0.clone();
            if has(&block) {
                return;
            }
            self.blocks[at].1 = true;
            self.type_block(&block);
        }
        assert!(words.is_none(), "no block of docs/{page} has '{}'", words.unwrap_or_default());
    }

    fn type_block(&mut self, block: &Block) {
        let folder = self.folder.join(block.page.replace(['/', '.'], "-"));
        if !folder.exists() {
            let made = std::fs::create_dir_all(&folder).and_then(|()| {
                FOLDERS.iter().try_for_each(|name| symlink(root().join(name), folder.join(name)))
            });
            made.unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        }
        for typed in &block.typed {
            let begin = Instant::now();
            let found = self.type_command(typed, &folder);
            let first = typed.command.lines().next().unwrap_or_default();
            println!("{:5.1} s  {}:{}: {first}", begin.elapsed().as_secs_f64(), block.page, block.line);
            if let Err(why) = found {
                println!("         {why}");
                self.wrong.push(format!("docs/{}:{}: {first}\n  {why}", block.page, block.line));
            }
        }
    }

    /// Types a command, again and again where it only looks, until it does what the page says.
    fn type_command(&self, typed: &Typed, folder: &Path) -> Result<(), String> {
        let command = in_words_of_the_lab(&typed.command);
        let give_up = Instant::now() + if only_looks(&command) { PATIENCE / 2 } else { Duration::ZERO };
        loop {
            let (well, said) = self.shell(&command, folder);
            let wrong = match typed.missing(&said) {
                _ if well == typed.is_refused() => {
                    format!("ended {}:\n{said}", if well { "well" } else { "badly" })
                }
                Some(line) => format!("does not print '{line}':\n{said}"),
                None => return Ok(()),
            };
            if Instant::now() > give_up {
                return Err(wrong);
            }
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    /// Whether a command ended well, and everything that it printed.
    fn shell(&self, command: &str, folder: &Path) -> (bool, String) {
        let script = r#"cd "$0" && PATH="$1:$PATH" NO_COLOR=1 bash -c "$2" 2>&1; echo "ended $?""#;
        let (folder, programs) =
            (folder.display().to_string(), self.folder.join("programs").display().to_string());
        let said = self.cluster.try_program(&["bash", "-c", script, &folder, &programs, command], None);
        let said = said.unwrap_or_else(|error| panic!("no shell in the lab: {error}"));
        // What a command printed may not end with a line's end.
        let (said, ended) = said.rsplit_once("ended ").unwrap_or((&said, ""));
        (ended.trim() == "0", said.to_owned())
    }

    /// Types something that stands in no page, in front of the next block; that it fails is the test's failure.
    pub fn also(&self, command: &str) -> String {
        let (well, said) = self.shell(command, &self.folder);
        assert!(well, "{command}: {said}");
        said
    }

    /// Every block was typed and did what its page says.
    pub fn has_read_everything(mut self) {
        let forgotten = self.blocks.iter().filter(|(_, typed)| !typed);
        let forgotten =
            forgotten.map(|(block, _)| format!("docs/{}:{}: nobody typed it", block.page, block.line));
        let forgotten: Vec<String> = forgotten.collect();
        self.wrong.extend(forgotten);
        assert!(self.wrong.is_empty(), "{}", self.wrong.join("\n\n"));
    }

    /// Takes away what pages made, and what an interrupted run left of it.
    fn forget(&self) {
        let _ = self.cluster.try_kubectl(&["uncordon", "node0"], None);
        let labels: Vec<String> = LABELS.iter().map(|label| format!("{label}-")).collect();
        let words: Vec<&str> =
            ["label", "node", "node0"].into_iter().chain(labels.iter().map(String::as_str)).collect();
        let _ = self.cluster.try_kubectl(&words, None);
        let words: Vec<&str> =
            ["delete", "--ignore-not-found", "--timeout=60s"].into_iter().chain(OBJECTS).collect();
        let _ = self.cluster.try_kubectl(&words, None);
        let words: Vec<&str> =
            ["delete", "-n", "carve", "--ignore-not-found"].into_iter().chain(BESIDE).collect();
        let _ = self.cluster.try_kubectl(&words, None);
        for kinds in ["slicepolicies,sliceplans", "deviceclasses"] {
            let _ = self.cluster.try_kubectl(&["delete", kinds, "--all"], None);
        }
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        self.forget();
    }
}

/// A command with what its capital words stand for. `NODE:` is the title of a column.
fn in_words_of_the_lab(command: &str) -> String {
    let part = |letter: char| letter.is_alphanumeric() || "-_:".contains(letter);
    WORDS.iter().fold(command.to_owned(), |command, (word, meaning)| {
        let (mut text, mut rest) = (String::new(), command.as_str());
        while let Some(at) = rest.find(word) {
            let (before, after) = (&rest[..at], &rest[at + word.len()..]);
            let alone = !before.ends_with(part) && !after.starts_with(part);
            text.push_str(before);
            text.push_str(if alone { meaning } else { word });
            rest = after;
        }
        text + rest
    })
}

fn only_looks(command: &str) -> bool {
    let mut words = command.split_whitespace();
    let program = words.next();
    let verb = match words.next() {
        Some("-n") => words.nth(1),
        other => other,
    };
    matches!(program, Some("kubectl" | "carve")) && verb.is_some_and(|verb| LOOKS.contains(&verb))
}

#[cfg(test)]
mod tests {
    use super::{WITH_CLAIMS, WITH_PLUGIN, all_blocks, in_words_of_the_lab, only_looks};
    use std::collections::BTreeSet;

    #[test]
    fn every_page_with_blocks_for_a_cluster_is_tried() {
        let pages: BTreeSet<String> = all_blocks().into_iter().map(|block| block.page).collect();
        let tried: BTreeSet<String> =
            WITH_PLUGIN.iter().chain(WITH_CLAIMS).map(|page| (*page).to_owned()).collect();
        assert_eq!(pages, tried, "left: pages that have such blocks; right: pages that a suite reads");
        assert_eq!(WITH_PLUGIN.len() + WITH_CLAIMS.len(), tried.len(), "one suite reads a page");
    }

    #[test]
    fn words_stand_for_what_the_lab_has() {
        for (typed, meant) in [
            ("kubectl cordon NODE", "kubectl cordon node0"),
            (
                "kubectl get pods --field-selector spec.nodeName=NODE",
                "kubectl get pods --field-selector spec.nodeName=node0",
            ),
            (
                "kubectl get nodes -o custom-columns=NODE:.metadata.name",
                "kubectl get nodes -o custom-columns=NODE:.metadata.name",
            ),
            (
                "helm install --set image.repository=REGISTRY/carve",
                "helm install --set image.repository=localhost/carve",
            ),
            ("echo NAMESPACE", "echo NAMESPACE"),
        ] {
            assert_eq!(in_words_of_the_lab(typed), meant);
        }
    }

    #[test]
    fn only_what_changes_nothing_is_typed_again() {
        for looks in [
            "kubectl get nodes",
            "kubectl -n carve exec ds/carve-agent -- /carve gpus",
            "carve explain pod a",
            "carve top --once",
        ] {
            assert!(only_looks(looks), "{looks}");
        }
        for changes in ["kubectl apply -f get", "helm get", "kubectl -n get delete pod", "carve leave"] {
            assert!(!only_looks(changes), "{changes}");
        }
    }
}
