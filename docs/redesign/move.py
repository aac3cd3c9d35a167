"""Move the tree: `python move.py ROOT`. Mechanical: files, imports, dotted names, paths in texts."""
import ast, pathlib, re, subprocess, sys
sys.path.insert(0, str(pathlib.Path(__file__).parent))
from mapping import TABLE, new_name

ROOT = pathlib.Path(sys.argv[1]).resolve()
SRC = ROOT / 'src/sfumato'

def git(*a): subprocess.run(['git', *a], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)

# ---- modules
modules = {}   # old dotted (without sfumato.) -> path ; '' is the root package
packages = set()
for p in SRC.rglob('*.py'):
    parts = p.relative_to(SRC).with_suffix('').parts
    if parts[-1] == '__init__':
        parts = parts[:-1]; packages.add('.'.join(parts))
    modules['.'.join(parts)] = p
defined = {}
for m, p in modules.items():
    names = set()
    for n in ast.parse(p.read_text()).body:
        if isinstance(n, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)): names.add(n.name)
        elif isinstance(n, ast.Assign):
            for t in n.targets:
                for x in ast.walk(t):
                    if isinstance(x, ast.Name): names.add(x.id)
        elif isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name): names.add(n.target.id)
        elif isinstance(n, (ast.ImportFrom, ast.Import)):
            own = isinstance(n, ast.ImportFrom) and n.module == f'sfumato.{m}'.rstrip('.')
            names.update((a.asname or a.name).split('.')[0] for a in n.names if not (own and a.asname is None))
        elif isinstance(n, ast.If):
            for x in ast.walk(n):
                if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Store): names.add(x.id)
    defined[m] = names
new = {m: (new_name(m) if m else '') for m in modules}

def dotted(old):
    """sfumato.a.b[.attr...] -> new"""
    if old == 'sfumato': return old
    parts = old.split('.')[1:]
    for size in range(len(parts), 0, -1):
        m = '.'.join(parts[:size])
        if m in modules and m != 'steward':
            return '.'.join(['sfumato', new[m], *parts[size:]])
    return old

def rewrite_python(path):
    text = path.read_text()
    rel = path.relative_to(ROOT).parts
    if 'sfumato' not in text and not (rel[0] == 'tests' and 'from .' in text): return
    lines = text.splitlines(keepends=True)
    tree = ast.parse(text)
    renames = []   # (old base, new base, module)
    edits = []
    for n in ast.walk(tree):
        if isinstance(n, ast.ImportFrom) and n.module and (n.module == 'sfumato' or n.module.startswith('sfumato.')) and not n.level:
            base = n.module[8:]
            groups = {}
            for a in n.names:
                full = f'{base}.{a.name}'.lstrip('.')
                if full in modules and a.name not in (defined.get(base, set()) if base else set()):
                    parent, _, leaf = ('sfumato.' + new[full]).rpartition('.')
                    old = a.asname or a.name
                    if a.asname is None and leaf != a.name:
                        renames.append((a.name, leaf, full)); entry = leaf
                    else:
                        entry = leaf + (f' as {a.asname}' if a.asname else '')
                    groups.setdefault(parent, []).append(entry)
                else:
                    groups.setdefault(dotted(n.module), []).append(a.name + (f' as {a.asname}' if a.asname else ''))
            first, last = n.lineno - 1, n.end_lineno - 1
            indent = ' ' * n.col_offset
            tail = lines[last][n.end_col_offset:]
            same_line = lines[first][:n.col_offset].strip()
            assert not same_line, (path, n.lineno)
            out = ''
            for i, (mod, names) in enumerate(groups.items()):
                t = tail if i == len(groups) - 1 else '\n'
                body = ', '.join(names)
                mod = mod.replace('sfumato', '\x00MARK', 1)
                line = f'{indent}from {mod} import {body}'
                if len(line) + len(tail.rstrip()) > 99 and not tail.strip():
                    line = f'{indent}from {mod} import (\n' + ''.join(f'{indent}    {x},\n' for x in names) + f'{indent})'
                out += line + t
            edits.append((first, last, out))
    for n in ast.walk(tree):
        if isinstance(n, ast.ImportFrom) and n.level and rel[0] == 'tests':
            package = rel[:len(rel) - n.level]
            target = '.'.join([*package, *(n.module or '').split('.')]).rstrip('.')
            segment = ''.join(lines[n.lineno - 1:n.end_lineno])
            fresh = re.sub(r'from\s+\.+[\w.]*\s+import', f'from {target} import', segment, count=1)
            assert fresh != segment
            edits.append((n.lineno - 1, n.end_lineno - 1, fresh))
    for first, last, out in sorted(edits, reverse=True):
        lines[first:last + 1] = [out]
    text = ''.join(lines)
    for old, leaf, module in renames:
        tree = ast.parse(text.replace('\x00MARK', 'mark_'))
        shadowed = any((isinstance(x, ast.Name) and isinstance(x.ctx, ast.Store) and x.id == old)
                       or (isinstance(x, ast.arg) and x.arg == old) for x in ast.walk(tree))
        body = text.splitlines(keepends=True)
        spots = []
        for x in ast.walk(tree):
            if isinstance(x, ast.Attribute) and isinstance(x.value, ast.Name) and x.value.id == old and x.attr in defined[module]:
                spots.append((x.value.lineno - 1, x.value.col_offset))
            elif not shadowed and isinstance(x, ast.Name) and x.id == old:
                spots.append((x.lineno - 1, x.col_offset))
        for row, column in sorted(set(spots), reverse=True):
            raw = body[row].encode()
            assert raw[column:column + len(old)] == old.encode(), (path, row)
            body[row] = (raw[:column] + leaf.encode() + raw[column + len(old):]).decode()
        text = ''.join(body)
    text = rewrite_names(text).replace('\x00MARK', 'sfumato')
    path.write_text(text)

NAME = re.compile(r'\bsfumato((?:\.[A-Za-z_][A-Za-z_0-9]*)+)')
def rewrite_names(text):
    def sub(match):
        return dotted('sfumato' + match.group(1))
    text = NAME.sub(sub, text)
    text = PATH.sub(path_sub, text)
    text = INNER.sub(inner_sub, text)
    text = LONE.sub(inner_sub, text)
    text = TEST_PATH.sub(test_sub, text)
    text = TEST_NAME.sub(lambda m: 'tests.' + new_test(m.group(1).replace('.', '/')).replace('/', '.'), text)
    return text

INNER = re.compile(r'(?<![\w/.-])((?:[a-z_0-9]+/)+[a-z_0-9]+)(?=(\.py\b|/?[`"\']))')
LONE = re.compile(r'(?<=`)([a-z_]+)(?=\.py`)')
def inner_sub(match):
    m = match.group(1).replace('/', '.')
    return new[m].replace('.', '/') if m in modules else match.group(1)

PATH = re.compile(r'\bsfumato/((?:[a-z_0-9]+/)*[a-z_0-9]+)(\.py)?')
def path_sub(match):
    m = match.group(1).replace('/', '.')
    rest = ''
    parts = m.split('.')
    for size in range(len(parts), 0, -1):
        k = '.'.join(parts[:size])
        if k in modules:
            return 'sfumato/' + '/'.join([*new[k].split('.'), *parts[size:]]) + (match.group(2) or '')
    return match.group(0)

# ---- tests/unit and tests/contract mirror
def new_test(rel):
    """tests/<rel> -> new relative path, without ending"""
    parts = rel.split('/')
    if parts[0] not in ('unit', 'contract') or len(parts) < 2: return rel
    if rel == 'unit/steward/conftest': return 'unit/conftest'
    if rel == 'unit/engines/conftest': return 'unit/data/conftest'
    kind, rest = parts[0], parts[1:]
    for size in range(len(rest), 0, -1):
        head = rest[:size]
        leaf = head[-1]
        test = leaf.startswith('test_')
        m = '.'.join([*head[:-1], leaf[5:]]) if test else '.'.join(head)
        if m in modules and m != 'steward':
            n = new[m].split('.')
            if test: n[-1] = 'test_' + n[-1]
            return '/'.join([kind, *n, *rest[size:]])
        if test:
            # test_module_topic: the longest module that is a prefix
            words = leaf[5:].split('_')
            for k in range(len(words) - 1, 0, -1):
                m = '.'.join([*head[:-1], '_'.join(words[:k])])
                if m in modules and m not in packages:
                    n = new[m].split('.')
                    n[-1] = '_'.join(['test', n[-1], *words[k:]])
                    return '/'.join([kind, *n, *rest[size:]])
    if rest[0] == 'steward' and len(rest) == 2: return f"{kind}/anonymize/{rest[1].replace('test_', 'test_release_', 1)}"
    if rest[0] in TABLE:
        return '/'.join([kind, *TABLE[rest[0]].split('.'), *rest[1:]])
    return rel

TEST_PATH = re.compile(r'\btests/((?:unit|contract)/[a-z_0-9/]+)')
def test_sub(match): return 'tests/' + new_test(match.group(1).rstrip('/'))+ ('/' if match.group(1).endswith('/') else '')
TEST_NAME = re.compile(r'\btests\.((?:unit|contract)(?:\.[a-z_0-9]+)+)')

tracked = subprocess.run(['git', 'ls-files'], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split('\n')
tracked = [t for t in tracked if t and not t.startswith('docs/redesign')]
for t in tracked:
    p = ROOT / t
    if p.suffix == '.py' and t.split('/')[0] in ('src', 'tests', 'bench', 'docs'): rewrite_python(p)
    elif p.suffix in ('.md', '.toml', '.yml', '.yaml', '.in', '.html', '.mjs', '.js', '.css', '.svg', '.cfg') or p.name in ('Makefile', 'Dockerfile'):
        text = p.read_text(); changed = rewrite_names(text)
        if changed != text: p.write_text(changed)

# ---- files
def moved(t):
    parts = pathlib.PurePosixPath(t).parts
    if t.startswith('src/sfumato/'):
        rel = '/'.join(parts[2:])
        if rel.endswith('.py'):
            m = rel[:-3].replace('/', '.')
            if m.endswith('__init__'): m = m[:-9] if m != '__init__' else ''
            target = new[m]
            if m in packages:
                return f'src/sfumato/{target.replace(".", "/")}/__init__.py' if m else t
            return f'src/sfumato/{target.replace(".", "/")}.py'
        folder = '.'.join(parts[2:-1]); size = len(parts) - 1
        # a data file goes with its nearest package
        for k in range(len(parts) - 1, 2, -1):
            pk = '.'.join(parts[2:k])
            if pk in packages:
                return '/'.join(['src/sfumato', *new[pk].split('.'), *parts[k:]])
        return t
    if t.startswith('tests/'):
        rel = t[6:]
        stem, dot, end = rel.rpartition('.')
        return 'tests/' + new_test(stem) + dot + end
    return t
plan = {}
for t in tracked:
    n = moved(t)
    if n != t: plan[t] = n
vals = list(plan.values())
clash = {v for v in vals if vals.count(v) > 1} | {v for v in vals if (ROOT / v).exists() and v not in plan}
GONE = ('src/sfumato/steward/__init__.py',)
print('clash', clash, file=sys.stderr)
for t, n in plan.items():
    if t.startswith('tests/') and t.endswith('.py'):
        shift = n.count('/') - t.count('/'); old = t.count('/')
        if shift:
            text = (ROOT / t).read_text()
            fixed = re.sub(r'(__file__\)(?:\.resolve\(\))?\.parents\[)(\d+)\]', lambda m: f'{m.group(1)}{int(m.group(2)) + (shift if int(m.group(2)) >= old else 0)}]', text)
            if fixed != text: (ROOT / t).write_text(fixed)
import shutil
stage = ROOT / '.moving'
for t, n in plan.items():
    q = stage / n; q.parent.mkdir(parents=True, exist_ok=True); shutil.move(ROOT / t, q)
for n in plan.values():
    q = ROOT / n; q.parent.mkdir(parents=True, exist_ok=True); shutil.move(stage / n, q)
shutil.rmtree(stage)
for d in sorted((x for b in ('src', 'tests') for x in (ROOT / b).rglob('*') if x.is_dir()), key=lambda x: -len(x.parts)):
    if d.name == '__pycache__': shutil.rmtree(d, ignore_errors=True)
    elif not any(d.iterdir()): d.rmdir()
print(len(plan), 'moved', file=sys.stderr)
