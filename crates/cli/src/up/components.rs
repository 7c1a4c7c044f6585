//! What runs inside `tidepool up`, and what happens when a part of it ends?
//!
//! A component is a named future that goes on until the one token is cancelled. One that ends
//! earlier, with or without an error, takes everything down: half a cluster is worse than none,
//! because nobody would notice. On the way out all get the same time to finish what they began.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context, anyhow};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// How long components may take to end once they are told to.
const PATIENCE: Duration = Duration::from_secs(10);

/// Tasks that live and die together.
#[derive(Debug)]
pub(super) struct Components {
    shutdown: CancellationToken,
    tasks: JoinSet<anyhow::Result<()>>,
    names: HashMap<Id, &'static str>,
}

type Ended = Result<(Id, anyhow::Result<()>), JoinError>;

impl Components {
    pub(super) fn new() -> Self {
        Self { shutdown: CancellationToken::new(), tasks: JoinSet::new(), names: HashMap::new() }
    }

    /// Starts a component; it gets the token that tells it to end.
    pub(super) fn start<F>(&mut self, name: &'static str, run: impl FnOnce(CancellationToken) -> F)
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        let task = self.tasks.spawn(run(self.shutdown.clone()));
        self.names.insert(task.id(), name);
    }

    /// Waits for a component to end by itself, which none should; says which and why.
    pub(super) async fn failure(&mut self) -> anyhow::Error {
        match self.tasks.join_next_with_id().await {
            Some(ended) => match self.verdict(ended) {
                (name, Ok(())) => anyhow!("{name} ended by itself"),
                (_, Err(error)) => error,
            },
            None => std::future::pending().await,
        }
    }

    /// Tells all to end and waits for them; the first failure is the result.
    pub(super) async fn stop(mut self) -> anyhow::Result<()> {
        self.shutdown.cancel();
        let mut result = Ok(());
        let all = async {
            while let Some(ended) = self.tasks.join_next_with_id().await {
                let (_, verdict) = self.verdict(ended);
                result = std::mem::replace(&mut result, Ok(())).and(verdict);
            }
        };
        if timeout(PATIENCE, all).await.is_err() {
            let mut late: Vec<&str> = self.names.values().copied().collect();
            late.sort_unstable();
            warn!(components = late.join(", "), "did not end in time and were cut off");
        }
        result
    }

    fn verdict(&mut self, ended: Ended) -> (&'static str, anyhow::Result<()>) {
        let id = match &ended {
            Ok((id, _)) => *id,
            Err(error) => error.id(),
        };
        let name = self.names.remove(&id).unwrap_or("a component");
        let verdict = match ended {
            Ok((_, result)) => result.with_context(|| format!("{name} failed")),
            Err(error) => Err(error).with_context(|| format!("{name} crashed")),
        };
        (name, verdict)
    }
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    async fn obedient(token: CancellationToken) -> anyhow::Result<()> {
        token.cancelled().await;
        Ok(())
    }

    #[tokio::test]
    async fn the_first_to_end_is_named() {
        for (name, end, want) in [
            ("failing", Err("no disk"), "failing failed: no disk"),
            ("leaving", Ok(()), "leaving ended by itself"),
        ] {
            let mut components = Components::new();
            components.start("steady", obedient);
            components.start(name, move |_| async move { end.map_err(anyhow::Error::msg) });
            assert_eq!(format!("{:#}", components.failure().await), want);
            components.stop().await.unwrap();
        }
    }

    #[tokio::test]
    async fn all_are_told_and_a_failure_on_the_way_out_counts() {
        let mut components = Components::new();
        components.start("steady", obedient);
        components.start("clumsy", |token| async move {
            token.cancelled().await;
            bail!("lost the last write")
        });
        let error = components.stop().await.unwrap_err();
        assert_eq!(format!("{error:#}"), "clumsy failed: lost the last write");
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_listen_is_cut_off() {
        let mut components = Components::new();
        components.start("deaf", |_| std::future::pending());
        components.stop().await.unwrap();
    }
}
