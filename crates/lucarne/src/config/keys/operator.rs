//! Keys under `operator`.

use lucarne_settings::form::Shape;
use lucarne_settings::section;

section! {
    /// Name of the organization or person.
    name: Shape = Shape::Text, "required";

    /// Contact addresses: one e-mail address or a list.
    emails: Shape = Shape::List(&Shape::Text), "required";
}
