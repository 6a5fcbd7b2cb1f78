//! The few shapes of CEL selectors that say plainly which device is wanted. Anything else is told, not guessed.

/// What a selector says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Selected {
    /// `.profile == '1g.5gb'`
    pub(super) profile: Option<String>,
    /// `.productName == '…'`, or a pattern that holds one literal.
    pub(super) product: Option<String>,
    /// `.type == 'mig'`
    pub(super) kind: Option<String>,
    /// The first part that is not understood.
    pub(super) not_understood: Option<String>,
}

/// Reads a selector whose parts are joined by `&&`.
pub(super) fn selected(expression: &str) -> Selected {
    let mut selected = Selected::default();
    for part in expression.split("&&") {
        let part = part.trim();
        let part = part.strip_prefix('(').and_then(|part| part.strip_suffix(')')).unwrap_or(part).trim();
        if !one(part, &mut selected) && selected.not_understood.is_none() {
            selected.not_understood = Some(part.chars().take(120).collect());
        }
    }
    selected
}

fn one(part: &str, selected: &mut Selected) -> bool {
    if let Some((left, right)) = part.split_once("==") {
        let (Some(value), left) = (literal(right.trim()), left.trim()) else { return false };
        if left == "device.driver" {
            return true;
        }
        let Some(attribute) = attribute(left) else { return false };
        match attribute {
            "profile" => selected.profile = Some(value.to_owned()),
            "productName" => selected.product = Some(value.to_owned()),
            "type" => selected.kind = Some(value.to_owned()),
            _ => return false,
        }
        return true;
    }
    let Some((left, right)) = part.split_once(".matches(") else { return false };
    let Some(pattern) = right.strip_suffix(')').and_then(|text| literal(text.trim())) else { return false };
    let left = left.trim();
    let left = left.strip_suffix(".lowerAscii()").unwrap_or(left);
    let inner = pattern.trim_start_matches('^').trim_end_matches('$');
    let inner = inner.strip_prefix(".*").unwrap_or(inner);
    let inner = inner.strip_suffix(".*").unwrap_or(inner);
    let plain =
        !inner.is_empty() && inner.chars().all(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    if attribute(left) != Some("productName") || !plain {
        return false;
    }
    selected.product = Some(inner.to_owned());
    true
}

/// `device.attributes['domain'].NAME`
fn attribute(text: &str) -> Option<&str> {
    let rest = text.strip_prefix("device.attributes[")?;
    let (domain, rest) = rest.split_once(']')?;
    literal(domain.trim())?;
    rest.strip_prefix('.')
}

/// A text in quotes of either kind.
fn literal(text: &str) -> Option<&str> {
    ['\'', '"'].into_iter().find_map(|quote| {
        let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
        (!inner.contains(quote)).then_some(inner)
    })
}

#[cfg(test)]
mod tests {
    use super::selected;

    #[test]
    fn plain_selectors_are_read() {
        let read = selected("device.attributes['gpu.nvidia.com'].profile == '1g.5gb'");
        assert_eq!(read.profile.as_deref(), Some("1g.5gb"));
        assert_eq!(read.not_understood, None);
        let read = selected(
            "device.driver == 'gpu.nvidia.com' && device.attributes[\"gpu.nvidia.com\"].type == \"mig\" \
             && device.attributes['gpu.nvidia.com'].profile == '1g.12gb'",
        );
        assert_eq!((read.kind.as_deref(), read.profile.as_deref()), (Some("mig"), Some("1g.12gb")));
        let read = selected(
            "device.attributes[\"gpu.nvidia.com\"].productName.lowerAscii().matches(\"^.*h300.*$\")",
        );
        assert_eq!(read.product.as_deref(), Some("h300"));
    }

    #[test]
    fn anything_else_is_told() {
        for expression in [
            "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('4Gi')) >= 0",
            "device.attributes['gpu.nvidia.com'].productName.matches('^(a|b)$')",
            "device.attributes['gpu.nvidia.com'].profile == '1g.5gb' || true",
            "device.attributes['gpu.nvidia.com'].index == 0",
            "",
            "== == ==",
        ] {
            assert!(selected(expression).not_understood.is_some(), "{expression}");
        }
    }
}
