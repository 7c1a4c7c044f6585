//! LoadAwareScheduling: off nodes that are busy, onto nodes that are idle, by what they use rather
//! than by what was requested. [`crate::load`] has the arithmetic.

use std::borrow::Cow;
use std::sync::Arc;

use api::finding::Finding;
use serde_json::Value;

use super::{ArgsError, read_args};
use crate::load::{self, Args, BookIx, Estimate, Page, Refusal, Settings};
use crate::model::Class;
use crate::plugin::{
    self, Context, Event, Filtering, Normalise, Plugin, Prepared, Reads, Scoring, Subject, Work,
};
use crate::queue::Hint;
use crate::snapshot::{NodeIx, PodIx, Snapshot};
use crate::verdict::Verdict;

pub(super) const NAME: &str = "LoadAwareScheduling";

#[derive(Debug)]
struct LoadAware {
    settings: Arc<Settings>,
    book: BookIx,
}

pub(super) fn build(args: &Value, snapshot: &mut Snapshot) -> Result<Box<dyn Plugin>, ArgsError> {
    let args = read_args::<Args>(NAME, args)?.completed();
    let errors: Vec<String> = args
        .check()
        .iter()
        .filter(|finding| finding.is_error())
        .map(|finding| {
            let Finding { path, rule, fix, .. } = finding;
            format!("{}: {rule} ({fix})", path.as_deref().unwrap_or_default())
        })
        .collect();
    if !errors.is_empty() {
        return Err(ArgsError { plugin: NAME, problem: errors.join("; ") });
    }
    let settings = Settings::new(&args, &mut snapshot.resources);
    let book = snapshot.extras.load.open(settings.clone());
    Ok(Box::new(LoadAware { settings: Arc::new(settings), book }))
}

impl Plugin for LoadAware {
    fn name(&self) -> &'static str {
        NAME
    }

    fn prepare(&self, context: Context<'_>) -> Prepared {
        let Context { snapshot, class } = context;
        let work = Judge {
            estimate: Estimate::of(&self.settings, class, &snapshot.names, &snapshot.resources),
            settings: Arc::clone(&self.settings),
            book: self.book,
        };
        let is_daemon = class
            .owner
            .as_ref()
            .is_some_and(|owner| snapshot.names.text(owner.kind) == "DaemonSet");
        let filter = if is_daemon { Filtering::Skip } else { Filtering::Run(Reads::Usage) };
        let score = Scoring::Run(Reads::Usage, Normalise::None);
        Prepared { filter, score, work: Some(Box::new(work)), ..Prepared::default() }
    }

    /// A report concerns its own node: does the pod pass there now?
    fn hint(&self, snapshot: &Snapshot, class: &Class, event: &Event) -> Hint {
        let Some(Subject::Report(node)) = event.subject else { return Hint::Queue };
        let work = self.prepare(Context { snapshot, class }).work;
        Hint::queue_if(work.is_none_or(|work| work.filter(snapshot, node).is_ok()))
    }

    fn reserve(
        &self,
        snapshot: &mut Snapshot,
        pod: PodIx,
        _: NodeIx,
    ) -> Result<(), plugin::Refusal> {
        snapshot.extras.load.reserve(pod);
        Ok(())
    }

    fn unreserve(&self, snapshot: &mut Snapshot, pod: PodIx, _node: NodeIx) {
        snapshot.extras.load.unreserve(pod);
    }
}

#[derive(Debug)]
struct Judge {
    estimate: Estimate,
    settings: Arc<Settings>,
    book: BookIx,
}

impl Judge {
    fn page<'a>(&self, snapshot: &'a Snapshot, node: NodeIx) -> Option<&'a Page> {
        snapshot.extras.load.book(self.book)?.page(node)
    }
}

impl Work for Judge {
    fn filter(&self, snapshot: &Snapshot, node: NodeIx) -> Verdict {
        let Some(page) = self.page(snapshot, node) else { return Verdict::OK };
        match load::filter(&self.settings, page, &self.estimate) {
            Ok(()) => Verdict::OK,
            Err(refusal) => {
                let number = refusal.number(&self.settings).min(LAST_REASON);
                Verdict::unschedulable(u32::try_from(number).unwrap_or(0))
            }
        }
    }

    fn reason(&self, bit: u32) -> Cow<'_, str> {
        let number = usize::try_from(bit).unwrap_or(LAST_REASON);
        Refusal::from_number(number, &self.settings).text(&self.settings).into()
    }

    fn score(&self, snapshot: &Snapshot, node: NodeIx) -> i64 {
        self.page(snapshot, node)
            .map_or(0, |page| load::score(&self.settings, page, &self.estimate))
    }
}

/// A verdict holds this many reasons; nobody configures thirty resources.
const LAST_REASON: usize = 61;

#[cfg(test)]
mod tests;
