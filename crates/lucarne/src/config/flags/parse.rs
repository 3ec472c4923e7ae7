//! Values of flags, and their problems.

use std::fmt::Display;

use lucarne_net::without_secrets;
use lucarne_settings::{Located, Report};

/// Parser of flags, which reports problems by flag.
pub(super) struct Parse<'r>(pub(super) &'r mut Report);

impl Parse<'_> {
    pub(super) fn problem(&mut self, flag: &str, message: impl Into<String>) {
        self.0.problem(None, format!("--{flag}"), message);
    }

    pub(super) fn present<'f, T: ?Sized>(
        &mut self,
        flag: &str,
        value: Option<&'f T>,
    ) -> Option<&'f T> {
        if value.is_none() {
            self.problem(flag, "is missing; --origin requires it");
        }
        value
    }

    pub(super) fn or_problem<T, E: Display>(
        &mut self,
        flag: &str,
        value: Result<T, E>,
    ) -> Option<T> {
        value
            .map_err(|why| self.problem(flag, why.to_string()))
            .ok()
    }

    pub(super) fn value<T, E: Display>(
        &mut self,
        flag: &str,
        text: &str,
        parser: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let value = parser(text).map_err(|why| format!("`{}` {why}", without_secrets(text)));
        self.or_problem(flag, value)
    }
}

pub(super) fn unplaced<T>(value: T) -> Located<T> {
    Located { value, line: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_in_an_invalid_flag_is_not_shown() {
        let mut report = Report::on(None);
        let mut parse = Parse(&mut report);
        let refuse = |_: &str| Err::<(), _>("has a user name");
        let value = parse.value("origin", "https://u:hush@ct.example/a", refuse);
        assert_eq!(value, None);
        let said = report.problem_lines().join("\n");
        assert!(
            said.contains("--origin: `https://u:***@ct.example/a` has a user name"),
            "{said}"
        );
    }
}
