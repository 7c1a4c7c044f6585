//! Which tasks are running, and has one ended that should not?

use std::collections::HashMap;

use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

/// Tasks with names that end together: when told to, or with the first that ends by itself.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    running: JoinSet<()>,
    names: HashMap<Id, String>,
}

/// A task has ended although nobody told it to.
#[derive(Debug, thiserror::Error)]
#[error("{task} has ended by itself")]
pub struct TaskError {
    task: String,
    source: Option<JoinError>,
}

impl Tasks {
    pub(crate) fn spawn(&mut self, name: String, task: impl Future<Output = ()> + Send + 'static) {
        let handle = self.running.spawn(task);
        self.names.insert(handle.id(), name);
    }

    /// Waits for all of them. If one ends before `shutdown`, the others are told to end too, and
    /// it is reported.
    pub(crate) async fn wait(mut self, shutdown: &CancellationToken) -> Result<(), TaskError> {
        let mut first = None;
        while let Some(ended) = self.running.join_next_with_id().await {
            let (id, source) = match ended {
                Ok((id, ())) => (id, None),
                Err(error) => (error.id(), Some(error)),
            };
            let task = self.names.remove(&id).unwrap_or_default();
            if source.is_some() || !shutdown.is_cancelled() {
                first.get_or_insert(TaskError { task, source });
                shutdown.cancel();
            }
        }
        first.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_end_when_told_to() {
        let (mut tasks, shutdown) = (Tasks::default(), CancellationToken::new());
        tasks.spawn("a".into(), shutdown.clone().cancelled_owned());
        tasks.spawn("b".into(), shutdown.clone().cancelled_owned());
        shutdown.cancel();
        assert!(tasks.wait(&shutdown).await.is_ok());
    }

    #[tokio::test]
    async fn one_that_ends_by_itself_ends_all_and_is_named() {
        let (mut tasks, shutdown) = (Tasks::default(), CancellationToken::new());
        tasks.spawn("steady".into(), shutdown.clone().cancelled_owned());
        tasks.spawn("hasty".into(), async {});
        let error = tasks.wait(&shutdown).await.unwrap_err();
        assert_eq!(error.to_string(), "hasty has ended by itself");
        assert!(shutdown.is_cancelled());
    }

    #[tokio::test]
    async fn a_panic_is_a_reason() {
        let (mut tasks, shutdown) = (Tasks::default(), CancellationToken::new());
        tasks.spawn("broken".into(), async { panic!("no") });
        assert!(tasks.wait(&shutdown).await.unwrap_err().source.is_some());
    }
}
