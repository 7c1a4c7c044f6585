//! How does a test wait for something that will happen?
//!
//! It asks again and again until the answer is there. The limit is reached only when something is
//! broken, so it is long: a busy machine must not fail a test.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use kube::Api;
use serde::de::DeserializeOwned;
use tokio::time::{sleep, timeout};

/// How long anything may take.
pub const LIMIT: Duration = Duration::from_secs(300);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Waits until there is an answer.
///
/// # Panics
///
/// When there is none within [`LIMIT`].
pub async fn until<T, F>(what: &str, mut ask: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let waiting = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            sleep(LOOK_AGAIN).await;
        }
    };
    timeout(LIMIT, waiting).await.unwrap_or_else(|_| panic!("never: {what}"))
}

/// [`until`] for tests without a runtime.
///
/// # Panics
///
/// When there is no answer within [`LIMIT`].
pub fn until_blocking<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = look() {
            return answer;
        }
        assert!(start.elapsed() < LIMIT, "never: {what}");
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// Waits until an object is as it should be, and returns it.
///
/// # Panics
///
/// When it is not within [`LIMIT`], or when the server does not answer.
pub async fn until_object<K>(api: &Api<K>, name: &str, what: &str, is_so: impl Fn(&K) -> bool) -> K
where
    K: Clone + Debug + DeserializeOwned,
{
    let waiting = async {
        loop {
            match api.get_opt(name).await {
                Ok(Some(object)) if is_so(&object) => return object,
                Ok(_) => sleep(LOOK_AGAIN).await,
                Err(error) => panic!("{name}: the server does not answer: {error}"),
            }
        }
    };
    match timeout(LIMIT, waiting).await {
        Ok(object) => object,
        Err(_) => panic!("{name}: never {what}: {:#?}", api.get_opt(name).await),
    }
}
