//! How does the revision of a template come to be there?

use k8s_openapi::api::apps::v1::ControllerRevision;
use reconcile::key::{Key, ObjectVersion, controller_of};
use reconcile::merge::precondition;
use reconcile::write::{WriteError, Writer};
use serde_json::json;

use super::{claim::Owner, revision::Present};

/// What became of the wish for a revision.
pub(crate) enum Outcome {
    Kept(Box<ControllerRevision>),
    /// Something else has its name: the owner must count a collision, which changes the name.
    Collision,
}

/// Creates or renumbers the revision of the present template.
pub(crate) async fn keep(
    writer: &Writer,
    owner: &Owner,
    present: Present,
) -> Result<Outcome, WriteError> {
    let kept = match present {
        Present::Newest(revision) => ControllerRevision::clone(&revision),
        Present::Again { revision, number } => {
            let seen = ObjectVersion::of(&*revision);
            let patch = json!({ "metadata": precondition(&seen), "revision": number });
            writer.patch::<ControllerRevision>(&seen.key, &patch).await?
        }
        Present::Create(revision) => match writer.create(&*revision).await {
            Ok(created) => created,
            Err(error) if error.is_taken() => {
                let found = writer.get::<ControllerRevision>(&Key::of(&*revision)).await?;
                match found.filter(|found| is_own(owner, found, &revision)) {
                    Some(found) => found,
                    None => return Ok(Outcome::Collision),
                }
            }
            Err(error) => return Err(error),
        },
    };
    Ok(Outcome::Kept(Box::new(kept)))
}

/// The cache may not know a revision that we have created ourselves.
fn is_own(owner: &Owner, found: &ControllerRevision, wanted: &ControllerRevision) -> bool {
    controller_of(&found.metadata).is_some_and(|has| has.uid == owner.uid)
        && found.data == wanted.data
}
