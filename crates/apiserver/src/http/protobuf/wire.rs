//! Protobuf's wire: numbered fields, each a number, eight or four bytes, or a run of bytes.

use super::ProtobufError;

/// Types a field's value can have in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scalar {
    Text,
    Boolean,
    Integer,
    Float,
    Bytes,
}

/// One field as found.
#[derive(Debug)]
pub(super) struct Found<'a> {
    pub(super) number: u64,
    value: Payload<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Payload<'a> {
    Varint(u64),
    Eight([u8; 8]),
    Bytes(&'a [u8]),
    Four,
}

impl<'a> Found<'a> {
    fn mismatch(&self) -> ProtobufError {
        let wire = match self.value {
            Payload::Varint(_) => 0,
            Payload::Eight(_) => 1,
            Payload::Bytes(_) => 2,
            Payload::Four => 5,
        };
        ProtobufError::WireType { number: self.number, wire }
    }

    pub(super) fn bytes(&self) -> Result<&'a [u8], ProtobufError> {
        match self.value {
            Payload::Bytes(bytes) => Ok(bytes),
            _ => Err(self.mismatch()),
        }
    }

    pub(super) fn text(&self) -> Result<&'a str, ProtobufError> {
        std::str::from_utf8(self.bytes()?).map_err(|_| ProtobufError::Text)
    }

    /// Negative numbers are written in two's complement.
    pub(super) fn integer(&self) -> Result<i64, ProtobufError> {
        match self.value {
            Payload::Varint(value) => Ok(i64::from_ne_bytes(value.to_ne_bytes())),
            _ => Err(self.mismatch()),
        }
    }

    pub(super) fn float(&self) -> Result<f64, ProtobufError> {
        match self.value {
            Payload::Eight(bytes) => Ok(f64::from_le_bytes(bytes)),
            _ => Err(self.mismatch()),
        }
    }
}

/// Walks the fields of one message.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(super) fn next(&mut self) -> Result<Option<Found<'a>>, ProtobufError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let number = key >> 3;
        let value = match key & 7 {
            0 => Payload::Varint(self.varint()?),
            1 => {
                let bytes = self.take(8)?;
                Payload::Eight(bytes.try_into().map_err(|_| ProtobufError::Cut)?)
            }
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| ProtobufError::Cut)?;
                Payload::Bytes(self.take(length)?)
            }
            5 => {
                self.take(4)?;
                Payload::Four
            }
            wire => {
                let wire = u8::try_from(wire).unwrap_or(u8::MAX);
                return Err(ProtobufError::WireType { number, wire });
            }
        };
        Ok(Some(Found { number, value }))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], ProtobufError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(ProtobufError::Cut)?;
        self.rest = rest;
        Ok(taken)
    }

    fn varint(&mut self) -> Result<u64, ProtobufError> {
        let mut value = 0u64;
        for shift in (0..70).step_by(7) {
            let (byte, rest) = self.rest.split_first().ok_or(ProtobufError::Cut)?;
            self.rest = rest;
            // The tenth byte has room for one bit only; whatever is above it is lost on purpose.
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(ProtobufError::Cut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_with_their_sign() {
        let cases: [(&[u8], i64); 4] = [
            (&[0x08, 0x05], 5),
            (&[0x08, 0x96, 0x01], 150),
            (&[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01], -1),
            (&[0x08, 0x00], 0),
        ];
        for (bytes, want) in cases {
            let found = Reader::new(bytes).next().unwrap().unwrap();
            assert_eq!((found.number, found.integer().unwrap()), (1, want), "{bytes:?}");
        }
        assert_eq!(Reader::new(&[0x08, 0x80]).next().unwrap_err(), ProtobufError::Cut);
        assert_eq!(Reader::new(&[0x08; 1]).next().unwrap_err(), ProtobufError::Cut);
        let endless = [[0x08].as_slice(), &[0x80; 11]].concat();
        assert_eq!(Reader::new(&endless).next().unwrap_err(), ProtobufError::Cut);
    }
}
