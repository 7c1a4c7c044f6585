//! Every text is refused or means the same after printing, as a list and as a mask.

#![no_main]

use libfuzzer_sys::fuzz_target;
use units::{CpuSet, CpuSetError};

fuzz_target!(|text: &str| {
    check(text, text.parse());
    check(text, CpuSet::from_mask(text));
});

fn check(text: &str, read: Result<CpuSet, CpuSetError>) {
    match read {
        Ok(cpus) => {
            let (list, mask) = (cpus.to_string(), cpus.as_mask().to_string());
            assert_eq!(CpuSet::from_mask(&mask).as_ref(), Ok(&cpus), "{text:?} as mask {mask:?}");
            assert_eq!(list.parse(), Ok(cpus), "{text:?} as list {list:?}");
        }
        Err(error) => assert!(error.to_string().len() < 1_000),
    }
}
