//! Where a pod's MIG devices go: of all places that are legal and touch nothing in use, the cheapest.

use super::places::{Candidate, LayoutIndex, Price};
use super::{AskIndex, Gpu, Migs, Place};
use carve_placement::{Claim, Fleet, GpuSet, ModelId, NodeIndex, Spot, WHOLE};

impl Migs {
    /// Whether so many GPUs of a model can hold what is asked for, if nothing else is on them.
    pub(in crate::events) fn fits_empty(&mut self, ask: AskIndex, model: ModelId, gpus: u8) -> bool {
        let Some(kind) = self.products.kind(model) else { return false };
        if let Some(known) = self.on_empty.get(&(ask, kind, gpus)) {
            return *known;
        }
        let layout = self.places.layout(kind, Vec::new());
        let empty = vec![Some(Candidate { layout, switch: true }); usize::from(gpus)];
        let fits = self
            .products
            .wanted(ask, kind)
            .is_some_and(|wanted| self.places.find(&self.products.kinds[kind.0], wanted, &empty).is_some());
        self.on_empty.insert((ask, kind, gpus), fits);
        fits
    }

    /// The best place for a pod's MIG devices in the whole fleet.
    pub(in crate::events) fn find(&mut self, fleet: &Fleet, claim: &Claim, ask: AskIndex) -> Option<Place> {
        if self.products.asks_for_one(ask)
            && let Some(place) = self.find_divided(fleet, claim, ask)
        {
            return Some(place);
        }
        let mut best: Option<Place> = None;
        for node in fleet.nodes() {
            let Some(place) = self.find_on(fleet, node, claim, ask) else { continue };
            if best.as_ref().is_none_or(|least| place.price < least.price) {
                best = Some(place);
            }
        }
        best
    }

    /// The best place for one device on the GPUs that are divided already: no other place is as good. GPUs that look alike are looked at
    /// once.
    fn find_divided(&mut self, fleet: &Fleet, claim: &Claim, ask: AskIndex) -> Option<Place> {
        let mut prices: Vec<(Price, LayoutIndex)> = Vec::new();
        for layout in self.alike.keys() {
            let kind = self.places.kind(*layout);
            let Some([profile]) = self.products.wanted(ask, kind) else { continue };
            let price = self.places.price(&self.products.kinds[kind.0], *layout, *profile);
            prices.extend(price.map(|price| (price, *layout)));
        }
        prices.sort_unstable();
        let fits = |(node, _): &&(NodeIndex, u8)| {
            claim.models.contains(fleet.shape(*node).model) && fleet.fits(*node, claim).is_ok()
        };
        for same in prices.chunk_by(|(one, _), (other, _)| one == other) {
            let first =
                |(_, layout): &(Price, LayoutIndex)| self.alike.get(layout)?.iter().find(fits).copied();
            if let Some((node, _)) = same.iter().filter_map(first).min() {
                return self.find_on(fleet, node, claim, ask);
            }
        }
        None
    }

    /// The best place on one node.
    pub(in crate::events) fn find_on(
        &mut self,
        fleet: &Fleet,
        node: NodeIndex,
        claim: &Claim,
        ask: AskIndex,
    ) -> Option<Place> {
        let own = self.nodes.get(node.0 as usize)?.as_ref()?;
        let wanted = self.products.wanted(ask, own.kind)?;
        if !claim.models.contains(fleet.shape(node).model) || fleet.fits(node, claim).is_err() {
            return None;
        }
        let compute = fleet.room(node).compute();
        let empty = self.places.layout(own.kind, Vec::new());
        let candidate = |(gpu, state): (usize, &Gpu)| match state.layout {
            Some(layout) => Some(Candidate { layout, switch: false }),
            None => (compute[gpu] == WHOLE.0).then_some(Candidate { layout: empty, switch: true }),
        };
        let candidates: Vec<Option<Candidate>> = own.gpus.iter().enumerate().map(candidate).collect();
        let kind = &self.products.kinds[own.kind.0];
        let found = self.places.find(kind, wanted, &candidates).or_else(|| {
            // Idle instances can lead a search so far astray that it gives up; without them it finds what an empty node has room for.
            let mut bare = candidates.clone();
            for (candidate, state) in bare.iter_mut().zip(&own.gpus) {
                if let Some(candidate) = candidate {
                    let used = state.layout().into_iter().filter(|(_, used)| *used).collect();
                    candidate.layout = self.places.layout(own.kind, used);
                }
            }
            let (price, mut gives) = self.places.find(kind, wanted, &bare)?;
            let mut cleared = GpuSet::default();
            for give in &mut gives {
                let first = !cleared.iter().any(|gpu| gpu == give.gpu);
                cleared = cleared.with(give.gpu);
                let idle = own.gpus[give.gpu].layout().into_iter().filter(|(_, used)| !*used && first);
                give.destroyed = idle.map(|(placed, _)| placed).collect();
            }
            Some((price, gives))
        });
        let (price, gives) = found?;
        let gpus = gives.iter().fold(GpuSet::default(), |gpus, give| gpus.with(give.gpu));
        Some(Place { spot: Spot { node, gpus }, price, gives })
    }
}
