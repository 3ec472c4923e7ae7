//! The error of a value that does not fit its type.

use std::fmt;

use serde::de;

use crate::keys;
use crate::section::join;

/// The error of a node that does not fit its type.
#[derive(Debug)]
pub struct SettingsError {
    /// Line of the innermost invalid value.
    pub line: Option<usize>,
    /// Key of that value, relative to the node that was read.
    pub key: String,
    /// Message that follows the key.
    pub message: String,
    /// Whether the key is missing instead of invalid.
    pub missing: bool,
}

impl SettingsError {
    fn new(message: String) -> Self {
        SettingsError {
            line: None,
            key: String::new(),
            message,
            missing: false,
        }
    }

    /// Returns the same error, relative to the enclosing map or list.
    pub(super) fn under(mut self, key: &str, line: usize) -> Self {
        self.line.get_or_insert(line);
        self.key = if self.key.starts_with('[') {
            format!("{key}{}", self.key)
        } else {
            join(key, &self.key)
        };
        self
    }
}

impl de::Error for SettingsError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        SettingsError::new(message.to_string())
    }

    fn missing_field(field: &'static str) -> Self {
        SettingsError {
            key: field.to_owned(),
            missing: true,
            ..SettingsError::new("is missing".to_owned())
        }
    }

    fn duplicate_field(field: &'static str) -> Self {
        SettingsError {
            key: field.to_owned(),
            ..SettingsError::new("is given twice".to_owned())
        }
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        SettingsError {
            key: field.to_owned(),
            ..SettingsError::new(keys::unknown(field, expected))
        }
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        SettingsError::new(format!("`{variant}` is not one of {}", expected.join(", ")))
    }

    fn invalid_type(_: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        SettingsError::new(format!("must be {expected}"))
    }

    fn invalid_value(found: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        let found = match found {
            de::Unexpected::Str(text) => format!("`{text}`"),
            de::Unexpected::Unsigned(number) => format!("`{number}`"),
            de::Unexpected::Signed(number) => format!("`{number}`"),
            other => other.to_string(),
        };
        SettingsError::new(format!("{found} is not {expected}"))
    }
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.key.as_str() {
            "" => f.write_str(&self.message),
            key => write!(f, "{key}: {}", self.message),
        }
    }
}

impl std::error::Error for SettingsError {}
