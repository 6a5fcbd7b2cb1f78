//! Machines that are brought for a policy: which ones, by whom, and as what kind of Karpenter's pool.

use crate::{MigMode, SlicePolicySpec};
use carve_economics::Provider;
use carve_gpu_model::{Geometry, ProfileName};
use carve_karpenter as karpenter;
use carve_karpenter::{BROUGHT_BY, CUT_WITHIN, ChosenBy, Cut, MigCut, POOL, Pool, Refusal, ToldBy};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Who brings machines, and how it learns what their nodes will offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum ProvisionMode {
    /// Karpenter, which is told by NodeOverlays (its gate `NodeOverlay` must be on).
    #[default]
    Karpenter,
    /// The cluster autoscaler: nothing is made in the cluster, and `carve karpenter tags` prints what groups of machines need.
    TagsOnly,
    /// Whoever brings machines for whole GPUs: pods of low priority ask for as many as pods that wait need, and nodes are cut when they have come. With a
    /// `nodeClass` that is Karpenter, without its gate; without one the cluster autoscaler.
    StandIns,
}

/// How machines may be paid for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CapacityType {
    /// By the hour.
    OnDemand,
    /// Cheaper, and taken back at any time.
    Spot,
    /// Paid for before.
    Reserved,
}

/// Whose machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Cloud {
    /// Amazon.
    #[serde(rename = "AWS")]
    Aws,
    /// Microsoft.
    Azure,
    /// Google.
    #[serde(rename = "GCP")]
    Gcp,
}

/// What machines are made from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeClass {
    /// `karpenter.k8s.aws`.
    #[schemars(length(min = 1))]
    pub group: String,
    /// `EC2NodeClass`.
    #[schemars(length(min = 1))]
    pub kind: String,
    /// Its name.
    #[schemars(length(min = 1))]
    pub name: String,
}

/// Weights of NodeOverlays, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "self.first <= self.last",
    "message": "weights: first is the smallest, and last the largest",
}]))]
pub struct Weights {
    /// The smallest.
    #[schemars(range(min = 1, max = 10000))]
    pub first: u16,
    /// The largest.
    #[schemars(range(min = 1, max = 10000))]
    pub last: u16,
}

impl Default for Weights {
    fn default() -> Self {
        Weights { first: 5000, last: 5099 }
    }
}

/// What MIG makes of every GPU of new machines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "has(self.all) != has(self.mixed)",
    "message": "write either all, with one profile, or mixed, with how many instances of which",
}]))]
pub struct FixedMig {
    /// As many instances of this profile as fit, such as `1g.10gb`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all: Option<String>,
    /// So many instances of each profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mixed: Option<BTreeMap<String, u32>>,
}

/// Machines that are brought for this policy. How their GPUs are cut says `sharing`, or `mig` or `parts` here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "self.mode != 'Karpenter' || has(self.nodeClass)",
        "message": "nodeClass: Karpenter makes machines from a class; name its group, kind and name",
    },
]))]
pub struct Provision {
    /// Who brings machines.
    #[serde(default)]
    pub mode: ProvisionMode,
    /// What machines are made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_class: Option<NodeClass>,
    /// GPUs as Karpenter's label writes them (`t4`, `l4`, `h100`), or as `carve` does where the label names two (`a100-40gb`).
    #[schemars(length(min = 1, max = 16))]
    pub models: Vec<String>,
    /// How many GPUs a machine may have.
    #[schemars(length(min = 1, max = 8), inner(range(min = 1, max = 16)))]
    pub counts: Vec<u8>,
    /// How machines may be paid for.
    #[serde(default = "on_demand")]
    #[schemars(length(min = 1, max = 3))]
    pub capacity_types: Vec<CapacityType>,
    /// The most GPUs at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub most_gpus: Option<u32>,
    /// Machines are told apart by their types, those of this cloud. To be left out where Karpenter's provider is that of AWS, which has labels for GPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_types_of: Option<Cloud>,
    /// Weights for overlays, which no other policy's overlays and nobody else's may have.
    #[serde(default)]
    pub weights: Weights,
    /// MIG instances that every GPU is cut into, for good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mig: Option<FixedMig>,
    /// Whether GPUs are given out in parts by carve's scheduler (agents with `--slices`).
    #[serde(default)]
    pub parts: bool,
    /// Further labels of nodes. Those of `nodeSelector` are added.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// For how long a new node may not offer what was promised of it, before it counts as broken.
    #[serde(default = "quarter_of_an_hour")]
    #[schemars(range(min = 10, max = 86400))]
    pub ready_within_seconds: u32,
    /// The image of pods that stand in for others; it only has to wait.
    #[serde(default = "pause")]
    #[schemars(length(min = 1))]
    pub stand_in_image: String,
    /// Whether the NodePool goes when this policy does. Its machines go with it, and what runs on them.
    #[serde(default)]
    pub remove: bool,
}

fn on_demand() -> Vec<CapacityType> {
    vec![CapacityType::OnDemand]
}

fn quarter_of_an_hour() -> u32 {
    900
}

fn pause() -> String {
    "registry.k8s.io/pause:3.10".to_owned()
}

impl SlicePolicySpec {
    /// The pool of machines that a policy of this name wants, if it wants any; or why none can be made of what it says.
    pub fn pool(&self, name: &str) -> Option<Result<Pool, Refusal>> {
        self.provision.as_ref().map(|provision| self.pool_of(name, provision))
    }

    fn pool_of(&self, name: &str, provision: &Provision) -> Result<Pool, Refusal> {
        let cut = self.cut(provision)?;
        let labels = self.labels(name, provision, &cut)?;
        let class = provision.node_class.as_ref();
        let chosen_by = match (provision.instance_types_of, class) {
            (Some(Cloud::Aws), _) => ChosenBy::InstanceTypes(Provider::Aws),
            (Some(Cloud::Azure), _) => ChosenBy::InstanceTypes(Provider::Azure),
            (Some(Cloud::Gcp), _) => ChosenBy::InstanceTypes(Provider::Gcp),
            (None, Some(class)) if class.group != "karpenter.k8s.aws" => {
                let reason = format!("{} has no labels that tell GPUs apart", class.group);
                let remedy = "say whose types of machines they are: AWS, Azure or GCP";
                return Err(Refusal::new("provision.instanceTypesOf", reason, remedy));
            }
            // Labels of AWS' GPUs are those of Karpenter's provider.
            (None, None) if provision.mode == ProvisionMode::StandIns => {
                let reason = "nodes of groups of machines are told apart by their types";
                let remedy = "say whose types they are: AWS, Azure or GCP; or name a nodeClass, where Karpenter brings them";
                return Err(Refusal::new("provision.instanceTypesOf", reason, remedy));
            }
            _ => ChosenBy::AwsLabels,
        };
        let node_class = match (class, provision.mode) {
            (Some(class), _) => karpenter::NodeClass {
                group: class.group.clone(),
                kind: class.kind.clone(),
                name: class.name.clone(),
            },
            // Groups of machines have no class.
            (None, ProvisionMode::TagsOnly | ProvisionMode::StandIns) => {
                let word = || "none".to_owned();
                karpenter::NodeClass { group: word(), kind: word(), name: word() }
            }
            (None, ProvisionMode::Karpenter) => {
                let remedy = "name the class, such as karpenter.k8s.aws, EC2NodeClass, gpu";
                return Err(Refusal::new("provision.nodeClass", "it is missing", remedy));
            }
        };
        let paid = |kind: &CapacityType| match kind {
            CapacityType::OnDemand => karpenter::CapacityType::OnDemand,
            CapacityType::Spot => karpenter::CapacityType::Spot,
            CapacityType::Reserved => karpenter::CapacityType::Reserved,
        };
        let Weights { first, last } = provision.weights;
        let told_by = match (provision.mode, class) {
            (ProvisionMode::Karpenter | ProvisionMode::TagsOnly, _) => ToldBy::Overlays,
            (ProvisionMode::StandIns, Some(_)) => ToldBy::StandIns,
            (ProvisionMode::StandIns, None) => ToldBy::StandInsOfGroups,
        };
        if told_by == ToldBy::StandIns && provision.ready_within_seconds > CUT_WITHIN {
            let reason = format!(
                "Karpenter takes machines without pods away after {CUT_WITHIN} s, and stand-ins are gone by then"
            );
            let remedy = format!("write at most {CUT_WITHIN}");
            return Err(Refusal::new("provision.readyWithinSeconds", reason, remedy));
        }
        Ok(Pool {
            name: name.to_owned(),
            node_class,
            models: provision.models.clone(),
            counts: provision.counts.clone(),
            capacity_types: provision.capacity_types.iter().map(paid).collect(),
            cut,
            chosen_by,
            weights: karpenter::WeightBand { first, last },
            most_gpus: provision.most_gpus,
            labels,
        }
        .asked_for_by(told_by))
    }

    /// What becomes of the GPUs of new machines.
    fn cut(&self, provision: &Provision) -> Result<Cut, Refusal> {
        if self.mig.as_ref().is_some_and(|mig| mig.mode == MigMode::Automatic) {
            let reason = "GPUs that are cut on demand have no capacity that could be promised";
            let remedy =
                "write mode Manual and in provision.mig what GPUs are cut into, or leave provision out";
            return Err(Refusal::new("mig.mode", reason, remedy));
        }
        match (&self.sharing, &provision.mig, provision.parts) {
            (Some(sharing), None, false) if sharing.replicas > 1 => {
                Ok(Cut::Shared { replicas: sharing.replicas, renamed: sharing.renamed })
            }
            (Some(_), None, false) => {
                let reason = "whole GPUs of new machines are not shared by it";
                Err(Refusal::new("sharing.replicas", reason, "write by how many pods each is shared"))
            }
            (None, Some(mig), false) => fixed(mig).map(Cut::Mig),
            (None, None, true) => Ok(Cut::Parts),
            (None, None, false) => {
                let remedy = "write sharing, provision.mig or provision.parts";
                Err(Refusal::new("provision", "nothing says how GPUs of new machines are cut", remedy))
            }
            _ => {
                let remedy = "leave one of sharing, provision.mig and provision.parts";
                Err(Refusal::new("provision", "GPUs of new machines would be cut in several ways", remedy))
            }
        }
    }

    /// Labels of new nodes: with those that the policy selects by, so that it counts for them.
    fn labels(
        &self,
        name: &str,
        provision: &Provision,
        cut: &Cut,
    ) -> Result<BTreeMap<String, String>, Refusal> {
        let mut labels = provision.labels.clone();
        for (key, value) in &self.node_selector {
            // Whose nodes they are is said by who brings them.
            if ["karpenter.sh/nodepool", POOL].contains(&key.as_str()) && value == name {
                continue;
            }
            if let Some(other) = labels.insert(key.clone(), value.clone()).filter(|other| other != value) {
                let reason =
                    format!("'{key}' would be '{other}', and the policy selects nodes with '{value}'");
                return Err(Refusal::new("provision.labels", reason, "leave it out"));
            }
        }
        if let Some(key) = [POOL, BROUGHT_BY].into_iter().find(|key| labels.contains_key(*key)) {
            let reason = format!("carve sets '{key}' itself");
            return Err(Refusal::new("provision.labels", reason, "leave it out"));
        }
        let config = "nvidia.com/mig.config";
        if matches!(cut, Cut::Mig(MigCut::Mixed(_))) && !labels.contains_key(config) {
            let reason = format!("no agent knows what to cut without the label {config}");
            let remedy = "add it, with the name that the mixture has in the agents' MIG configuration";
            return Err(Refusal::new("provision.labels", reason, remedy));
        }
        Ok(labels)
    }
}

fn fixed(mig: &FixedMig) -> Result<MigCut, Refusal> {
    let profile = |text: &String| {
        text.parse::<ProfileName>().map_err(|error| {
            let remedy = "a name looks like 1g.10gb";
            Refusal::new("provision.mig", format!("'{text}' is no MIG profile: {error}"), remedy)
        })
    };
    match (&mig.all, &mig.mixed) {
        (Some(all), None) => profile(all).map(MigCut::All),
        (None, Some(mixed)) => {
            let pairs = mixed.iter().map(|(name, count)| Ok((profile(name)?, *count)));
            pairs.collect::<Result<Geometry, Refusal>>().map(MigCut::Mixed)
        }
        _ => {
            let remedy = "write all: 1g.10gb, or mixed: {3g.40gb: 1, 1g.10gb: 4}";
            Err(Refusal::new("provision.mig", "it must say either all or mixed", remedy))
        }
    }
}

/// What is wrong with a pool, in the words of the policy that it is made of.
pub fn in_words_of_policy(refusal: Refusal) -> Refusal {
    let field = match refusal.field.as_str() {
        "name" => "metadata.name".to_owned(),
        "cut.replicas" => "sharing.replicas".to_owned(),
        "cut.profile" | "cut.mixed" => "provision.mig".to_owned(),
        // These are the policy's already.
        field @ ("mig.mode" | "sharing.renamed" | "provision") => field.to_owned(),
        field if field.starts_with("provision.") => field.to_owned(),
        field => format!("provision.{field}"),
    };
    Refusal { field, ..refusal }
}
