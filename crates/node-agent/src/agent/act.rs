//! What the agent does with what it knows: one function computes what should be offered, and the doors make it so.

use super::Agent;
use crate::configuration;
use crate::labels::{Published, read_facts};
use crate::options::Job;
use crate::plugin::Served;
use carve_cluster_api::{Tone, names};
use carve_slicing::health::Health;
use carve_slicing::{LabelOptions, Offer, PartId, offer, withheld};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::now;

impl Agent {
    /// Takes the newest configuration, if it is good, and answers its title if it is another one than before.
    fn reconfigure(&mut self) -> Option<String> {
        let found = match configuration::find(&self.options, &self.named, self.view.as_ref()) {
            Ok(found) => found,
            Err(error) => {
                // The same text may come back, and is to be taken then.
                self.tried = None;
                self.refuse_config(error.to_string());
                return None;
            }
        };
        if self.tried.as_ref() == Some(&found) {
            return None;
        }
        self.tried = Some(found.clone());
        let (mut settings, config, warnings) = match configuration::read(&self.options, &found) {
            Ok(read) => read,
            Err(error) => {
                self.refuse_config(error.to_string());
                return None;
            }
        };
        self.cdi.choose_lists(&config, &mut settings);
        // A configuration that this node can not carry out is refused too, as long as the one before can be.
        if let Err(error) = offer(&self.node, &settings)
            && self.configured
            && offer(&self.node, &self.settings).is_ok()
        {
            // The node may change so that it can.
            self.tried = None;
            self.refuse_config(format!("configuration {}: {error}", found.title));
            return None;
        }
        for warning in warnings {
            tracing::warn!("configuration {}: {warning}", found.title);
        }
        self.settings = Arc::new(settings);
        self.config = config;
        self.config_trouble = None;
        self.configured = true;
        self.metrics.config(true);
        self.labelled_at = now().0;
        Some(found.title)
    }

    /// Says which configuration is in force.
    fn tell_configured(&self, title: &str) {
        self.reporter.event(Tone::Normal, "Configured", format!("configuration {title} is in force"));
        self.reporter.condition(names::CONFIGURED, true, "Configured", format!("configuration {title}"));
    }

    fn refuse_config(&mut self, why: String) {
        if self.config_trouble.as_ref() == Some(&why) {
            return;
        }
        let stays = if self.configured { "the one before stays in force" } else { "nothing is offered" };
        self.reporter.event(Tone::Warning, "ConfigRefused", format!("{why}; {stays}"));
        self.reporter.condition(names::CONFIGURED, false, "ConfigRefused", why.clone());
        self.metrics.config(false);
        self.config_trouble = Some(why);
    }

    /// Reconciles if a file says something new; cheap enough for every second.
    pub(crate) async fn reconcile_if_new(&mut self) {
        let found = configuration::find(&self.options, &self.named, self.view.as_ref());
        let known = match &found {
            Ok(found) => self.tried.as_ref() == Some(found),
            Err(error) => self.config_trouble.as_ref() == Some(&error.to_string()),
        };
        if !known {
            self.reconcile().await;
        }
    }

    /// Computes from all facts what should be offered, and makes it so.
    pub(crate) async fn reconcile(&mut self) {
        let taken = self.reconfigure();
        let wanted = if self.configured { offer(&self.node, &self.settings) } else { Ok(Offer::default()) };
        match wanted {
            Ok(offer) => {
                for remark in &offer.remarks {
                    if self.remarks.insert(remark.clone()) {
                        tracing::warn!("{remark}");
                    }
                }
                self.offer = offer;
                self.offer_trouble = None;
            }
            Err(error) => {
                let why = error.to_string();
                if self.offer_trouble.as_ref() != Some(&why) {
                    self.reporter.event(Tone::Warning, "NothingOffered", why.clone());
                }
                self.offer = Offer::default();
                self.offer_trouble = Some(why);
            }
        }
        let sick = self.health.all().into_iter().filter_map(|(part, health)| match health {
            Health::Healthy => None,
            Health::Unhealthy { reason, .. } => Some((part.to_string(), reason.to_string())),
        });
        self.usage.learn(&self.node, &self.offer, sick.collect());
        self.usage.learn_cutting(self.holding_back.iter().map(PartId::to_string).collect());
        self.aside = !self.rivals.is_empty() && !self.options.take_over;
        if self.does(Job::DevicePlugin) && !self.aside {
            self.serve().await;
        } else {
            self.plugins.serve(BTreeMap::new());
            self.plugins.withdraw().await;
        }
        if let Some(dra) = &self.dra {
            dra.learn(self.news_for_dra());
        }
        if let Some(slices) = &self.slices {
            slices.learn(self.news_for_dra());
        }
        // Not before the doors answer by it: whoever reads that asks them next.
        if let Some(title) = taken {
            self.tell_configured(&title);
        }
        self.tell_sick();
        self.label().await;
        self.tell_condition();
    }

    /// What is sick, for whoever plans what GPUs become.
    fn tell_sick(&self) {
        let all = self.health.all().into_iter();
        let sick: BTreeSet<PartId> =
            all.filter(|(_, health)| !health.is_healthy()).map(|(part, _)| part).collect();
        let gpus = self.node.gpus.iter().map(|gpu| {
            // A GPU of which any part is sick is worth a look.
            let parts = gpu.migs.iter().map(|mig| mig.part()).chain([PartId::new(gpu.gpu.uuid.to_string())]);
            let healthy = !gpu.lost && !parts.into_iter().any(|part| sick.contains(&part));
            (gpu.gpu.index.0, gpu.gpu.uuid.to_string(), healthy)
        });
        self.metrics.health(gpus.collect());
        self.sick.send_if_modified(|known| {
            let changed = *known != sick;
            *known = sick;
            changed
        });
    }

    /// Brings CDI file, daemons and kubelet's list up to date, in this order.
    async fn serve(&mut self) {
        let mut unwell: BTreeMap<PartId, String> = BTreeMap::new();
        for trouble in self.mps.ensure(&self.node, &self.offer, &self.settings, &self.held) {
            unwell.insert(trouble.part, trouble.why);
        }
        self.learn_mps();
        // A container that is started again gets what it was given then, by the same names.
        let unused = self.holders_known && self.held.is_empty();
        let cdi = self.cdi.write(&self.node, &self.settings, unused);
        for remark in cdi.remarks {
            self.remark("Cdi", remark);
        }
        let matters = self.settings.any_cdi_list() || self.settings.imex_required;
        let trouble = cdi.trouble.filter(|_| matters);
        if let Some(why) = &trouble {
            for part in self.offer.resources.values().flat_map(|resource| &resource.devices) {
                unwell.entry(part.part.clone()).or_insert_with(|| why.clone());
            }
        }
        let told = trouble.map(|why| format!("nothing is given away until containers can be served: {why}"));
        self.trouble("CdiFailed", told, "containers can be served again");
        for part in &self.holding_back {
            unwell.insert(part.clone(), "it is about to be cut otherwise".to_owned());
        }
        for (part, health) in self.health.all() {
            if let Health::Unhealthy { reason, .. } = health {
                unwell.entry(part).or_insert_with(|| reason.to_string());
            }
        }
        let waiting = withheld(&self.offer, &self.held);
        let mut resources = BTreeMap::new();
        for (name, resource) in &self.offer.resources {
            let mut unfit = BTreeMap::new();
            for device in &resource.devices {
                let waits = waiting.get(&(name.clone(), device.id.clone()));
                let why = unwell
                    .get(&device.part)
                    .cloned()
                    .or_else(|| waits.map(|holder| format!("pod {holder} still holds it in another form")));
                if let Some(why) = why {
                    unfit.insert(device.id.clone(), why);
                }
            }
            self.metrics.devices(name.as_str(), resource.devices.len() - unfit.len(), unfit.len());
            let served = Served {
                pool: Arc::new(crate::choice::pool(resource)),
                resource: resource.clone(),
                settings: Arc::clone(&self.settings),
                topology: Arc::clone(&self.topology),
                unwell: unfit,
                control_nodes: self.cdi.control_nodes(),
                flattened: cdi.flattened.clone(),
                absent: cdi.absent.clone(),
            };
            resources.insert(name.clone(), served);
        }
        self.plugins.serve(resources);
    }

    async fn label(&mut self) {
        if !self.does(Job::Labels) {
            return;
        }
        let gfd = self.config.flags.gfd.clone().unwrap_or_default();
        let timestamp = (!gfd.no_timestamp.unwrap_or(false)).then_some(self.labelled_at);
        let facts = read_facts(&self.node, self.fabric.clone(), gfd.machine_type_file.as_deref(), timestamp);
        let options = LabelOptions { aliases: self.options.label_aliases };
        let offer = self.offer_trouble.is_none().then_some(&self.offer);
        let mut labels = carve_slicing::labels(&self.node, &self.settings, offer, &facts, &options);
        labels.insert(names::GPU_PRESENT.to_owned(), (!self.node.gpus.is_empty()).to_string());
        match self.publisher.publish(&self.options, self.api.as_ref(), &labels).await {
            Published::Same => {}
            Published::Written => tracing::info!(labels = labels.len(), "the node is labelled"),
            Published::Held(who) => {
                let message = format!("feature labels are not written, because others hold them: {who}");
                self.remark("LabelsHeld", message);
            }
            Published::Failed(why) => tracing::warn!(why, "the node can not be labelled; trying again"),
        }
    }

    fn tell_condition(&self) {
        let sick: Vec<String> = self
            .health
            .all()
            .into_iter()
            .filter_map(|(part, health)| match health {
                Health::Healthy => None,
                Health::Unhealthy { reason, .. } => Some(format!("{part}: {reason}")),
            })
            .collect();
        let (well, reason, message) = if self.node.gpus.is_empty() {
            (false, "NoGpu", "this node has no GPU".to_owned())
        } else if sick.is_empty() {
            (true, "AllHealthy", format!("{} GPU(s), all healthy", self.node.gpus.len()))
        } else {
            (false, "Unhealthy", sick.join("; "))
        };
        self.reporter.condition(names::GPUS_HEALTHY, well, reason, message);
    }

    /// Looks after sockets and says whether everything is ready.
    pub(crate) async fn look_after_plugins(&mut self) {
        if self.does(Job::DevicePlugin) && !self.aside {
            self.plugins.look_after().await;
        }
        if let Some(slices) = &mut self.slices {
            slices.look_after().await;
        }
        let state = if let Some(why) = &self.offer_trouble {
            Err(why.clone())
        } else if let (false, Some(why)) = (self.configured, &self.config_trouble) {
            Err(why.clone())
        } else if self.aside {
            Err("another device plugin offers these GPUs; this agent stands aside".to_owned())
        } else if self.does(Job::DevicePlugin) && !self.plugins.all_registered() {
            Err("kubelet has not registered every resource".to_owned())
        } else if let Some(dra) = &self.dra {
            dra.state()
        } else if let Some(slices) = &self.slices {
            slices.state()
        } else {
            Ok(())
        };
        self.metrics.ready(state.is_ok());
        self.readiness.send_if_modified(|known| {
            let changed = *known != state;
            *known = state;
            changed
        });
    }

    /// Takes the sockets away. Pods keep what they have, MPS daemons run on, labels stay.
    pub(crate) async fn end(&mut self) {
        self.plugins.withdraw().await;
        if let Some(dra) = &mut self.dra {
            dra.close().await;
        }
        if let Some(slices) = &mut self.slices {
            slices.close().await;
        }
        self.desk.save();
    }

    /// Reads the GPUs anew and acts on what is found.
    pub(crate) async fn look_at_gpus(&mut self) {
        self.read_again().await;
        self.look_around().await;
    }

    /// Looks who holds and who offers what, and acts on it.
    pub(crate) async fn look_around(&mut self) {
        self.learn_holders().await;
        if self.does(Job::DevicePlugin) {
            self.learn_rivals().await;
        }
        self.reconcile().await;
    }
}
