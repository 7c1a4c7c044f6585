use super::*;

#[test]
fn one_agent_at_a_time_holds_the_lock() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run/agent.lock");
    let held = lock(&path).unwrap();
    assert!(matches!(lock(&path), Err(RunError::Locked { .. })));
    drop(held);
    assert!(lock(&path).is_ok());
    std::fs::write(dir.path().join("file"), "").unwrap();
    let below_a_file = dir.path().join("file/agent.lock");
    assert!(matches!(lock(&below_a_file), Err(RunError::Lock { .. })));
}
