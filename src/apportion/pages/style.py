"""One style for all pieces. Colors are variables: those of a notebook, else the browser's light or dark."""

# Jupyter and VS Code name the colors of their themes; both may be dark while the browser is light.
_NOTEBOOK = {
    "ink": ("--jp-content-font-color1", "--vscode-editor-foreground"),
    "ground": ("--jp-layout-color0", "--vscode-editor-background"),
    "line": ("--jp-border-color2", "--vscode-editorWidget-border"),
}
_LIGHT = {"ink": "#1b1f24", "ground": "#ffffff", "line": "#d5dae0"}
_DARK = {"ink": "#e6e9ed", "ground": "#14171a", "line": "#3a4048"}
# Signals and series are told apart on either ground, also by those who see no red or green.
_SIGNALS_LIGHT = "--ap-good: #0b6e4f; --ap-warn: #8a5a00; --ap-bad: #b3261e; --ap-dim: #59636e; "
_SIGNALS_DARK = "--ap-good: #5ec8a0; --ap-warn: #e0b050; --ap-bad: #ff8a80; --ap-dim: #9aa4af; "
_SERIES_LIGHT = (
    "--ap-1: #2b6cb0; --ap-2: #c05621; --ap-3: #2f855a; --ap-4: #805ad5; --ap-5: #718096; "
)
_SERIES_DARK = (
    "--ap-1: #63a4e8; --ap-2: #f0935a; --ap-3: #63c08f; --ap-4: #b79cf0; --ap-5: #a0aec0; "
)


def _colors(named: dict[str, str], *, notebook: bool) -> str:
    found = []
    for name, color in named.items():
        value = color
        for outer in reversed(_NOTEBOOK[name] if notebook else ()):
            value = f"var({outer}, {value})"
        found.append(f"--ap-{name}: {value}; ")
    return "".join(found)


_DARK_RULES = _colors(_DARK, notebook=True) + _SIGNALS_DARK + _SERIES_DARK

STYLE = f"""
.apportion {{ {_colors(_LIGHT, notebook=True)}{_SIGNALS_LIGHT}{_SERIES_LIGHT}
  color: var(--ap-ink); font: 14px/1.45 system-ui, sans-serif; max-width: 62em; }}
@media (prefers-color-scheme: dark) {{ .apportion {{ {_DARK_RULES} }} }}
html[data-theme="light"] .apportion, body[data-jp-theme-light="true"] .apportion, .vscode-light .apportion {{
  {_colors(_LIGHT, notebook=True)}{_SIGNALS_LIGHT}{_SERIES_LIGHT} }}
html[data-theme="dark"] .apportion, body[data-jp-theme-light="false"] .apportion, .vscode-dark .apportion {{
  {_DARK_RULES} }}
.apportion.ap-card {{ background: var(--ap-ground); border: 1px solid var(--ap-line); border-radius: 6px;
  padding: 8px 14px; margin: 4px 0; }}
.apportion .ap-title {{ font-weight: 600; margin: 2px 0 6px; }}
.apportion .ap-good {{ color: var(--ap-good); }} .apportion .ap-warn {{ color: var(--ap-warn); }}
.apportion .ap-bad {{ color: var(--ap-bad); font-weight: 600; }}
.apportion .ap-dim {{ color: var(--ap-dim); }}
.apportion p, .apportion ul {{ margin: 4px 0; }}
.apportion table {{ border-collapse: collapse; margin: 6px 0; color: inherit; font-size: 13px; }}
.apportion th, .apportion td {{ text-align: left; vertical-align: top; padding: 2px 12px 2px 0; border: 0;
  background: none; color: inherit; white-space: normal; overflow-wrap: break-word; }}
.apportion thead th {{ border-bottom: 1px solid var(--ap-line); font-weight: 600; }}
.apportion .ap-facts td {{ overflow-wrap: anywhere; }}
.apportion .ap-facts th {{ color: var(--ap-dim); font-weight: 400; white-space: nowrap; }}
.apportion .ap-number {{ text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }}
.apportion summary {{ cursor: pointer; }}
.apportion .ap-wide {{ overflow-x: auto; }}
.apportion svg {{ display: block; max-width: 100%; height: auto; }}
.apportion svg text {{ fill: var(--ap-ink); font: 12px system-ui, sans-serif; }}
.apportion svg .ap-axis {{ stroke: var(--ap-line); }}
"""

# What is around the pieces of a whole page: panels on a ground, side by side where there is room.
_GROUND_LIGHT = "--ap-page: #f4f6f4; --ap-panel: #ffffff; --ap-accent: #20795a; "
_GROUND_DARK = "--ap-page: #111416; --ap-panel: #1b2024; --ap-accent: #5ec8a0; "
PAGE = f"""
:root {{ {_colors(_LIGHT, notebook=False)}{_GROUND_LIGHT} }}
@media (prefers-color-scheme: dark) {{ :root {{ {_colors(_DARK, notebook=False)}{_GROUND_DARK} }} }}
html {{ background: var(--ap-page); }}
body {{ margin: 0; }}
main.apportion {{ margin: 0 auto; padding: 16px 20px 40px; font-size: 15px; max-width: 1140px; }}
.apportion h1 {{ font-size: 24px; line-height: 1.2; letter-spacing: -0.015em; overflow-wrap: anywhere; }}
.apportion h2 {{ font-size: 17px; margin: 0 0 8px; }}
.apportion .ap-panels {{ display: grid; gap: 18px; align-items: start; margin: 16px 0;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 430px), 1fr)); }}
.apportion .ap-panel {{ background: var(--ap-panel); border: 1px solid var(--ap-line); border-radius: 14px;
  padding: 18px 20px; min-width: 0; }}
.apportion .ap-whole {{ grid-column: 1 / -1; }}
.apportion .ap-lead {{ font-size: 19px; line-height: 1.4; letter-spacing: -0.005em; }}
@media (max-width: 760px) {{ main.apportion {{ padding: 12px 12px 32px; }}
  .apportion .ap-panel {{ padding: 14px; }} }}
"""
