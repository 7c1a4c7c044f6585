//! The README speaks to someone who stands at the root of the repository.

#[test]
fn the_readme_is_true() {
    std::env::set_current_dir("../..").expect("the workspace is two folders up");
    trycmd::TestCases::new().case("README.md");
}
