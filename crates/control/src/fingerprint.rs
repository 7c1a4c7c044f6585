//! FNV-1a, 64 bits: short names for long things, the same on every machine.

const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

pub(crate) fn of(bytes: &[u8]) -> u64 {
    bytes.iter().fold(OFFSET, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_are_the_published_ones() {
        assert_eq!(of(b""), OFFSET);
        assert_eq!(of(b"kube-system/pool-a"), 13_778_220_790_914_240_367);
    }
}
