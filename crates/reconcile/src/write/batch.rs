//! How are many objects written without flooding the server?

use std::sync::Arc;

use futures::future::join_all;
use kube::api::DeleteParams;

use super::{Kind, WriteError, Writer};
use crate::key::ObjectVersion;

/// Requests that may be under way together.
const AT_ONCE: usize = 64;

/// What several writes came to: those that worked, and why the others did not.
#[derive(Debug)]
pub struct Batch<R> {
    pub done: Vec<R>,
    pub error: Option<WriteError>,
}

impl<R> Batch<R> {
    fn extend(&mut self, results: impl IntoIterator<Item = Result<R, WriteError>>) {
        for result in results {
            match result {
                Ok(done) => self.done.push(done),
                Err(error) => {
                    self.error.get_or_insert(error);
                }
            }
        }
    }
}

impl Writer {
    /// Creates objects, a few at first; see [`slow_start`].
    pub async fn create_all<K: Kind>(&self, objects: &[K]) -> Batch<K> {
        slow_start(objects, |object| self.create(object)).await
    }

    /// Deletes objects all at once and reports those that are gone, and the first refusal.
    pub async fn delete_all<K: Kind>(&self, objects: &[Arc<K>]) -> Batch<Arc<K>> {
        let deletions = objects.iter().map(|object| async move {
            let seen = ObjectVersion::of(&**object);
            let deleted = self.delete_exactly::<K>(&seen, DeleteParams::default()).await;
            deleted.map(|()| object.clone())
        });
        let mut batch = Batch { done: Vec::new(), error: None };
        batch.extend(in_parallel(deletions.collect()).await);
        batch
    }
}

/// Lets requests run side by side, but leaves room for others: the server serves a limited number
/// at once and refuses the rest.
pub async fn in_parallel<F: Future>(requests: Vec<F>) -> Vec<F::Output> {
    let mut results = Vec::new();
    let mut rest = requests.into_iter();
    loop {
        let some: Vec<_> = rest.by_ref().take(AT_ONCE).collect();
        if some.is_empty() {
            return results;
        }
        results.extend(join_all(some).await);
    }
}

/// Tries one, then two, then four at a time, and stops after a batch with a failure.
///
/// What fails for one pod of a template mostly fails for all of them; a quota that is used up
/// should cost one refused request, not five hundred.
pub async fn slow_start<'a, T, R, F>(items: &'a [T], act: impl Fn(&'a T) -> F) -> Batch<R>
where
    F: Future<Output = Result<R, WriteError>>,
{
    let mut batch = Batch { done: Vec::new(), error: None };
    let mut rest = items;
    let mut size = 1;
    while !rest.is_empty() && batch.error.is_none() {
        let (some, later) = rest.split_at(size.min(rest.len()));
        batch.extend(in_parallel(some.iter().map(&act).collect()).await);
        rest = later;
        size *= 2;
    }
    batch
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[tokio::test]
    async fn batches_double_until_one_fails() {
        let cases = [
            ("all work", 10, 10, 10, 10),
            ("the first fails", 10, 0, 1, 0),
            ("one of the second batch fails", 10, 2, 3, 2),
            ("one of the third batch fails, the batch goes on", 10, 4, 7, 6),
        ];
        for (name, wanted, works, tried, done) in cases {
            let items: Vec<usize> = (0..wanted).collect();
            let seen = RefCell::new(Vec::new());
            let batch = slow_start(&items, |item| {
                seen.borrow_mut().push(*item);
                let result = if *item == works { Err(WriteError::NotLeading) } else { Ok(*item) };
                async move { result }
            })
            .await;
            assert_eq!((seen.borrow().len(), batch.done.len()), (tried, done), "{name}");
            assert_eq!(batch.error.is_some(), tried < wanted, "{name}");
        }
    }
}
